"""What every part of the package uses: types, threads, files, memory, validation. It knows nothing of the model."""
