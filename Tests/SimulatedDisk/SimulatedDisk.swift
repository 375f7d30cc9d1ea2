internal import AnnalsFile
