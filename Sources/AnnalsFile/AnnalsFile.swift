/// The names of this layer that its users need before they have a file in hand.
package enum AnnalsFile {
    /// What a store file's name ends with by convention.
    package static let pathExtension = "annals"
}
