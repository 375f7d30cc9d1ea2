// The command line tool of Annals.

@main struct Tool {
    static func main() {
    }
}
