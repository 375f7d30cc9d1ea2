// The file layer's names for things that the model has its own types for.

package import AnnalsFile

package typealias FileValue = AnnalsFile::Value
package typealias FileObjectID = AnnalsFile::ObjectID
package typealias FileAttributeType = AnnalsFile::AttributeType
package typealias FileDeleteRule = AnnalsFile::DeleteRule
package typealias FileRowView = AnnalsFile::RowView
package typealias FileRowWriter = AnnalsFile::RowWriter
