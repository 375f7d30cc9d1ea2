// The engines of a mirror, as programs choose them.

internal import Annals

extension Mirror {
    /// The engine that carries the messages of a group. All stores of the group use the same.
    ///
    /// A route is only a description. `Mirror.init` throws `invalidArgument` for an impossible one.
    public struct Route: Sendable {
        let open: @Sendable (_ group: String, _ peer: String, Interruption) throws -> any Courier

        /// A NATS server with JetStream. The connection is not encrypted: for TLS, nkeys and the internet, run a
        /// `nats-server` on this machine as a leaf node.
        ///
        /// - Parameters:
        ///   - address: `nats://host:port`, or several servers of a cluster with commas between them. It may contain
        ///     credentials: `nats://user:password@host:port`.
        ///   - token: For a server that requires one. An address with credentials of its own uses these.
        ///   - replicas: The copies of each message that the servers must keep, 1 to 5. The mirror sends nothing while
        ///     they keep fewer. Nil accepts any number, and creates streams with one copy.
        ///   - domain: The JetStream domain of the streams, if it is not the server's own.
        public static func nats(
            _ address: String, token: String? = nil, replicas: Int? = nil, domain: String? = nil
        ) -> Route {
            nats(address, token.map { .token($0) }, replicas, domain)
        }

        /// A NATS server with JetStream that requires a user and a password. See `nats(_:token:replicas:domain:)`.
        ///
        /// - Parameters:
        ///   - address: `nats://host:port`, or several servers of a cluster with commas between them.
        ///   - user: The name. An address with credentials of its own uses these.
        ///   - password: In clear text. The server may store its bcrypt hash.
        ///   - replicas: The copies of each message that the servers must keep, 1 to 5.
        ///   - domain: The JetStream domain of the streams, if it is not the server's own.
        public static func nats(
            _ address: String, user: String, password: String, replicas: Int? = nil, domain: String? = nil
        ) -> Route {
            nats(address, .user(user, password: password), replicas, domain)
        }

        /// A folder that the machines share: a network file system, a mounted bucket, or a folder that a synchronizer
        /// copies. It serves one group. The folder must exist; it may be empty.
        public static func folder(_ path: String) -> Route {
            Route { group, peer, interruption in
                guard !path.isEmpty, !path.utf8.contains(0) else {
                    throw StoreError(
                        .invalidArgument, "The path of the mirror's folder is empty or has a zero byte: correct it.")
                }
                return try FolderCourier(path: path, group: group, peer: peer, interruption: interruption)
            }
        }

        private static func nats(
            _ address: String, _ credentials: NATSCredentials?, _ replicas: Int?, _ domain: String?
        ) -> Route {
            Route { group, peer, interruption in
                if let domain, !NATSNames.isToken(domain) || domain.contains("=") {
                    throw StoreError(
                        .invalidArgument,
                        "A JetStream domain has letters, digits, - and _ only: give the domain of the server's "
                            + "configuration.")
                }
                var settings = NATSSettings()
                settings.domain = domain
                return try NATSCourier(
                    address: address, credentials: credentials, group: group, peer: peer, replicas: replicas,
                    interruption: interruption, settings: settings)
            }
        }
    }
}
