@main struct Tool {
    static func main() {
    }
}
