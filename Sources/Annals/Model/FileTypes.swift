// The file layer's names for things that the model has its own types for.

internal import AnnalsFile

typealias FileValue = AnnalsFile::Value
typealias FileObjectID = AnnalsFile::ObjectID
typealias FileAttributeType = AnnalsFile::AttributeType
typealias FileDeleteRule = AnnalsFile::DeleteRule
typealias FileRowWriter = AnnalsFile::RowWriter
