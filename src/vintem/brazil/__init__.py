"""Brazilian facts without input or output: documents, phones and PIX keys."""
