// Random predicates over things and places, and what each means in plain Swift over the model.

import Annals
import FoundationEssentials

/// A predicate, and what it means.
struct OraclePredicate<E: TownEntity> {
    let name: String
    let predicate: Predicate<Object<E>>
    let meaning: (Reference<E>, E, TownModel) -> Bool

    init(
        _ name: String, _ predicate: Predicate<Object<E>>,
        _ meaning: @escaping (Reference<E>, E, TownModel) -> Bool
    ) {
        (self.name, self.predicate, self.meaning) = (name, predicate, meaning)
    }
}

enum EntityOraclePredicates {
    typealias OfThing = OraclePredicate<Town.Thing>
    typealias OfPlace = OraclePredicate<Town.Place>

    /// One leaf, or several that are combined.
    static func thing(_ model: TownModel, _ random: inout TownRandom, depth: Int = 3) -> OfThing {
        tree(depth, &random) { random in
            switch random.below(5) {
            case 0: number(&random)
            case 1: text(&random)
            case 2: other(&random)
            case 3: fraction(&random)
            default: link(model, &random)
            }
        }
    }

    static func place(_ model: TownModel, _ random: inout TownRandom) -> OfPlace {
        tree(2, &random) { placeLeaf(model, &$0) }
    }

    private static func tree<E: TownEntity>(
        _ depth: Int, _ random: inout TownRandom, _ leaf: (inout TownRandom) -> OraclePredicate<E>
    ) -> OraclePredicate<E> {
        guard depth > 0, random.chance(1, in: 2) else { return leaf(&random) }
        let parts = (0...random.below(3)).map { _ in tree(depth - 1, &random, leaf) }
        let predicates = parts.map(\.predicate)
        let name = "(" + parts.map(\.name).joined(separator: ", ") + ")"
        switch random.below(4) {
        case 0:
            return OraclePredicate("any" + name, anyOf(predicates)) { reference, value, model in
                parts.contains { $0.meaning(reference, value, model) }
            }
        case 1:
            return OraclePredicate("none" + name, noneOf(predicates)) { reference, value, model in
                !parts.contains { $0.meaning(reference, value, model) }
            }
        default:
            return OraclePredicate("all" + name, allOf(predicates)) { reference, value, model in
                parts.allSatisfy { $0.meaning(reference, value, model) }
            }
        }
    }

    // MARK: Values

    private static func number(_ random: inout TownRandom) -> OfThing {
        let rank = random.below(30) - 10
        let more = rank + random.below(8)
        let some: Set<Int> = [rank, more, 5]
        let slot: Int? = random.maybe(random.below(5))
        let tiny = random.integer(Int8.self)
        let short = random.integer(Int16.self)
        let word = random.integer(UInt16.self)
        let wide = random.integer(UInt64.self)
        switch random.below(16) {
        case 0: return OfThing("rank ==", #Predicate { $0.rank == rank }) { _, thing, _ in thing.rank == rank }
        case 1: return OfThing("rank <", #Predicate { $0.rank < rank }) { _, thing, _ in thing.rank < rank }
        case 2: return OfThing("rank >=", #Predicate { $0.rank >= rank }) { _, thing, _ in thing.rank >= rank }
        case 3:
            return OfThing("rank in", #Predicate { (rank...more).contains($0.rank) }) { _, thing, _ in
                (rank...more).contains(thing.rank)
            }
        case 4:
            return OfThing("rank of", #Predicate { some.contains($0.rank) }) { _, thing, _ in some.contains(thing.rank)
            }
        case 5: return OfThing("slot ==", #Predicate { $0.slot == slot }) { _, thing, _ in thing.slot == slot }
        case 6: return OfThing("slot !=", #Predicate { $0.slot != slot }) { _, thing, _ in thing.slot != slot }
        case 7:
            return OfThing("slot ?? <", #Predicate { ($0.slot ?? 2) < rank }) { _, thing, _ in (thing.slot ?? 2) < rank
            }
        case 8:
            return OfThing("if slot", #Predicate { if let slot = $0.slot { slot > rank } else { true } }) {
                _, thing, _ in thing.slot.map { $0 > rank } ?? true
            }
        case 9: return OfThing("tiny ==", #Predicate { $0.tiny == tiny }) { _, thing, _ in thing.tiny == tiny }
        case 10: return OfThing("tiny >", #Predicate { $0.tiny > tiny }) { _, thing, _ in thing.tiny > tiny }
        case 11:
            return OfThing("short ??", #Predicate { ($0.short ?? -1) <= short }) { _, thing, _ in
                (thing.short ?? -1) <= short
            }
        case 12: return OfThing("word <", #Predicate { $0.word < word }) { _, thing, _ in thing.word < word }
        case 13: return OfThing("wide ==", #Predicate { $0.wide == wide }) { _, thing, _ in thing.wide == wide }
        case 14:
            return OfThing("tiny, wide", #Predicate { $0.tiny == tiny && ($0.wide ?? 0) >= wide }) { _, thing, _ in
                thing.tiny == tiny && (thing.wide ?? 0) >= wide
            }
        default: return OfThing("rank %", #Predicate { $0.rank % 3 == 1 }) { _, thing, _ in thing.rank % 3 == 1 }
        }
    }

    private static func fraction(_ random: inout TownRandom) -> OfThing {
        let double = random.double()
        let more = random.double()
        let some = [double, more, -0.0, 0.0]
        let half = Float(random.double())
        let day = random.day().addingTimeInterval(random.chance(1, in: 4) ? 1e-7 : 0)
        let later = day.addingTimeInterval(Double(random.below(4)))
        let price = random.decimal()
        switch random.below(16) {
        case 0: return OfThing("ratio ==", #Predicate { $0.ratio == double }) { _, thing, _ in thing.ratio == double }
        case 1: return OfThing("ratio <", #Predicate { $0.ratio < double }) { _, thing, _ in thing.ratio < double }
        case 2: return OfThing("ratio >=", #Predicate { $0.ratio >= double }) { _, thing, _ in thing.ratio >= double }
        case 3:
            return OfThing("ratio of", #Predicate { some.contains($0.ratio) }) { _, thing, _ in
                some.contains(thing.ratio)
            }
        case 4: return OfThing("share ==", #Predicate { $0.share == double }) { _, thing, _ in thing.share == double }
        case 5: return OfThing("share nil", #Predicate { $0.share == nil }) { _, thing, _ in thing.share == nil }
        case 6:
            return OfThing("if share", #Predicate { if let share = $0.share { share <= double } else { false } }) {
                _, thing, _ in thing.share.map { $0 <= double } ?? false
            }
        case 7: return OfThing("half >", #Predicate { $0.half > half }) { _, thing, _ in thing.half > half }
        case 8: return OfThing("half ==", #Predicate { $0.half == half }) { _, thing, _ in thing.half == half }
        case 9: return OfThing("day ==", #Predicate { $0.day == day }) { _, thing, _ in thing.day == day }
        case 10:
            return OfThing("if day", #Predicate { if let it = $0.day { it >= day } else { false } }) {
                _, thing, _ in thing.day.map { $0 >= day } ?? false
            }
        case 11: return OfThing("made <", #Predicate { $0.made < day }) { _, thing, _ in thing.made < day }
        case 12:
            return OfThing("made in", #Predicate { $0.made >= day && $0.made <= later }) { _, thing, _ in
                thing.made >= day && thing.made <= later
            }
        case 13: return OfThing("price ==", #Predicate { $0.price == price }) { _, thing, _ in thing.price == price }
        case 14: return OfThing("price <", #Predicate { $0.price < price }) { _, thing, _ in thing.price < price }
        default: return OfThing("fee ==", #Predicate { $0.fee == price }) { _, thing, _ in thing.fee == price }
        }
    }

    private static func text(_ random: inout TownRandom) -> OfThing {
        let word = random.chance(1, in: 30) ? "" : random.text()
        let short = TownRandom.words[random.below(TownRandom.words.count)]
        let some = [word, short]
        let code: String? = random.maybe(random.code())
        let codes: [String?] = [code, random.code()]
        switch random.below(14) {
        case 0: return OfThing("title ==", #Predicate { $0.title == word }) { _, thing, _ in thing.title == word }
        case 1: return OfThing("title !=", #Predicate { $0.title != word }) { _, thing, _ in thing.title != word }
        case 2: return OfThing("title <", #Predicate { $0.title < word }) { _, thing, _ in thing.title < word }
        case 3: return OfThing("title >=", #Predicate { $0.title >= word }) { _, thing, _ in thing.title >= word }
        case 4:
            return OfThing("title starts", #Predicate { $0.title.starts(with: short) }) { _, thing, _ in
                thing.title.starts(with: short)
            }
        case 5:
            return OfThing("title contains", #Predicate { $0.title.contains(short) }) { _, thing, _ in
                thing.title.contains(short)
            }
        case 6:
            return OfThing("title of", #Predicate { some.contains($0.title) }) { _, thing, _ in
                some.contains(thing.title)
            }
        case 7:
            return OfThing("title folded", #Predicate { $0.title.caseFolded == short }) { _, thing, _ in
                thing.title.caseFolded == short
            }
        case 8:
            return OfThing("title between", #Predicate { $0.title >= short && $0.title < word }) { _, thing, _ in
                thing.title >= short && thing.title < word
            }
        case 9: return OfThing("code ==", #Predicate { $0.code == code }) { _, thing, _ in thing.code == code }
        case 10: return OfThing("code nil", #Predicate { $0.code == nil }) { _, thing, _ in thing.code == nil }
        case 11:
            return OfThing("code of", #Predicate { codes.contains($0.code) }) { _, thing, _ in
                codes.contains(thing.code)
            }
        case 12:
            return OfThing("code starts", #Predicate { $0.code?.starts(with: "1") == true }) { _, thing, _ in
                thing.code?.starts(with: "1") == true
            }
        default:
            return OfThing("sortTitle", #Predicate { $0.sortTitle > short }) { _, thing, _ in thing.sortTitle > short }
        }
    }

    private static func other(_ random: inout TownRandom) -> OfThing {
        let uuid = random.uuid()
        let data = Data(repeating: UInt8(random.below(3)), count: random.below(4))
        let url = URL(string: "https://example.org/\(random.below(4))")!
        let color = Town.Thing.Color.allCases[random.below(3)]
        let colors = [color, .blue]
        let level: Town.Thing.Level? = random.maybe(.high)
        let word = TownRandom.words[random.below(TownRandom.words.count)]
        let rank = random.below(10)
        switch random.below(14) {
        case 0: return OfThing("isOn", #Predicate { $0.isOn }) { _, thing, _ in thing.isOn }
        case 1: return OfThing("not isOn", #Predicate { !$0.isOn }) { _, thing, _ in !thing.isOn }
        case 2: return OfThing("isRare", #Predicate { $0.isRare == true }) { _, thing, _ in thing.isRare == true }
        case 3: return OfThing("isRare ??", #Predicate { $0.isRare ?? true }) { _, thing, _ in thing.isRare ?? true }
        case 4: return OfThing("uuid", #Predicate { $0.uuid == uuid }) { _, thing, _ in thing.uuid == uuid }
        case 5: return OfThing("data", #Predicate { $0.data == data }) { _, thing, _ in thing.data == data }
        case 6: return OfThing("url", #Predicate { $0.url == url }) { _, thing, _ in thing.url == url }
        case 7: return OfThing("color", #Predicate { $0.color == color }) { _, thing, _ in thing.color == color }
        case 8:
            return OfThing("color of", #Predicate { colors.contains($0.color) }) { _, thing, _ in
                colors.contains(thing.color)
            }
        case 9: return OfThing("level", #Predicate { $0.level == level }) { _, thing, _ in thing.level == level }
        case 10:
            return OfThing("isOn, rank", #Predicate { $0.isOn && $0.rank > rank }) { _, thing, _ in
                thing.isOn && thing.rank > rank
            }
        case 11:
            return OfThing("words", #Predicate { $0.words.contains(word) }) { _, thing, _ in thing.words.contains(word)
            }
        case 12: return OfThing("note nil", #Predicate { $0.note == nil }) { _, thing, _ in thing.note == nil }
        default:
            return OfThing("?:", #Predicate { $0.isOn ? $0.rank > rank : $0.slot == nil }) { _, thing, _ in
                thing.isOn ? thing.rank > rank : thing.slot == nil
            }
        }
    }

    // MARK: Relationships

    private static func link(_ model: TownModel, _ random: inout TownRandom) -> OfThing {
        let nobody = ObjectID(entityNumber: 1, number: 1 << 40)!
        let place = random.one(of: Town.Place.self, model) ?? Reference(nobody)
        let owner = random.one(of: Town.Owner.self, model) ?? Reference(nobody)
        let friend = random.one(of: Town.Thing.self, model) ?? Reference(nobody)
        let friends = [friend, random.one(of: Town.Thing.self, model) ?? friend]
        let name = model.places[place]?.name ?? "p1"
        let ownerName = "o\(random.below(40))"
        let size = random.below(9) - 3
        switch random.below(20) {
        case 0: return OfThing("place ==", #Predicate { $0.place == place }) { _, thing, _ in thing.place == place }
        case 1: return OfThing("place nil", #Predicate { $0.place == nil }) { _, thing, _ in thing.place == nil }
        case 2:
            return OfThing("place.name", #Predicate { $0.place?.name == name }) { _, thing, model in
                thing.place.flatMap { model.places[$0]?.name } == name
            }
        case 3:
            return OfThing("place.size", #Predicate { ($0.place?.size ?? 0) > size }) { _, thing, model in
                (thing.place.flatMap { model.places[$0]?.size } ?? 0) > size
            }
        case 4:
            return OfThing("place.owner.name", #Predicate { $0.place?.owner?.name == ownerName }) { _, thing, model in
                thing.place.flatMap { model.places[$0]?.owner }.flatMap { model.owners[$0]?.name } == ownerName
            }
        case 5: return OfThing("keeper", #Predicate { $0.keeper == owner }) { _, thing, _ in thing.keeper == owner }
        case 6:
            return OfThing("keeper.name", #Predicate { $0.keeper?.name != ownerName }) { _, thing, model in
                thing.keeper.flatMap { model.owners[$0]?.name } != ownerName
            }
        case 7:
            return OfThing("visited has", #Predicate { $0.visited.contains(place) }) { _, thing, _ in
                thing.visited.contains(place)
            }
        case 8:
            return OfThing("visited count", #Predicate { $0.visited.count > 1 }) { _, thing, _ in
                thing.visited.count > 1
            }
        case 9:
            return OfThing("visited any", #Predicate { $0.visited.contains { $0.size > size } }) { _, thing, model in
                thing.visited.contains { model.places[$0]!.size > size }
            }
        case 10:
            return OfThing("visited all", #Predicate { $0.visited.allSatisfy { $0.size > size } }) { _, thing, model in
                thing.visited.allSatisfy { model.places[$0]!.size > size }
            }
        case 11:
            return OfThing("friends has", #Predicate { $0.friends.contains(friend) }) { _, thing, _ in
                thing.friends.contains(friend)
            }
        case 12:
            return OfThing("friends any", #Predicate { $0.friends.contains { $0.isOn } }) { _, thing, model in
                thing.friends.contains { model.things[$0]!.isOn }
            }
        case 13:
            return OfThing("needs empty", #Predicate { $0.needs.isEmpty }) { _, thing, _ in thing.needs.isEmpty }
        case 14:
            return OfThing("friendsOf empty", #Predicate { $0.friendsOf.isEmpty }) { me, _, model in
                !model.things.values.contains { $0.friends.contains(me) }
            }
        case 15:
            return OfThing("friendsOf any", #Predicate { $0.friendsOf.contains { $0.rank > size } }) { me, _, model in
                model.things.values.contains { $0.friends.contains(me) && $0.rank > size }
            }
        case 16:
            return OfThing("me", #Predicate { $0.objectReference == friend }) { me, _, _ in me == friend }
        case 17:
            return OfThing("me of", #Predicate { friends.contains($0.objectReference) }) { me, _, _ in
                friends.contains(me)
            }
        case 18:
            return OfThing("if place", #Predicate { if let it = $0.place { it.size < size } else { true } }) {
                _, thing, model in thing.place.map { model.places[$0]!.size < size } ?? true
            }
        default:
            return OfThing("parts any", #Predicate { $0.parts.contains { $0.slot == nil } }) { _, thing, model in
                thing.parts.contains { model.things[$0]!.slot == nil }
            }
        }
    }

    private static func placeLeaf(_ model: TownModel, _ random: inout TownRandom) -> OfPlace {
        let nobody = ObjectID(entityNumber: 1, number: 1 << 40)!
        let other = random.one(of: Town.Place.self, model) ?? Reference(nobody)
        let thing = random.one(of: Town.Thing.self, model) ?? Reference(nobody)
        let size = random.below(12) - 3
        let rank = random.below(30) - 10
        let name = model.places[other]?.name ?? "p1"
        let names = [name, "p\(random.below(300))", "p1"]
        switch random.below(14) {
        case 0: return OfPlace("name ==", #Predicate { $0.name == name }) { _, place, _ in place.name == name }
        case 1: return OfPlace("name of", #Predicate { names.contains($0.name) }) { _, p, _ in names.contains(p.name) }
        case 2: return OfPlace("size >", #Predicate { $0.size > size }) { _, place, _ in place.size > size }
        case 3: return OfPlace("parent ==", #Predicate { $0.parent == other }) { _, place, _ in place.parent == other }
        case 4:
            return OfPlace("parent.name", #Predicate { $0.parent?.name == name }) { _, place, model in
                place.parent.flatMap { model.places[$0]?.name } == name
            }
        case 5:
            return OfPlace("children empty", #Predicate { $0.children.isEmpty }) { me, _, model in
                !model.places.values.contains { $0.parent == me }
            }
        case 6:
            return OfPlace("children any", #Predicate { $0.children.contains { $0.size > size } }) { me, _, model in
                model.places.values.contains { $0.parent == me && $0.size > size }
            }
        case 7:
            return OfPlace("things any", #Predicate { $0.things.contains { $0.rank == rank } }) { me, _, model in
                model.things.values.contains { $0.place == me && $0.rank == rank }
            }
        case 8:
            return OfPlace("things all", #Predicate { $0.things.allSatisfy { $0.isOn } }) { me, _, model in
                model.things.values.allSatisfy { $0.place != me || $0.isOn }
            }
        case 9:
            return OfPlace("things count", #Predicate { $0.things.count > 1 }) { me, _, model in
                model.things.values.count { $0.place == me } > 1
            }
        case 10:
            return OfPlace("visitors any", #Predicate { $0.visitors.contains { $0.rank > rank } }) { me, _, model in
                model.things.values.contains { $0.visited.contains(me) && $0.rank > rank }
            }
        case 11:
            return OfPlace("visitors has", #Predicate { $0.visitors.contains { $0.objectReference == thing } }) {
                me, _, model in model.things[thing]?.visited.contains(me) ?? false
            }
        case 12: return OfPlace("rival nil", #Predicate { $0.rival == nil }) { _, place, _ in place.rival == nil }
        default:
            return OfPlace("owner.name", #Predicate { ($0.owner?.name ?? "o3") < "o2" }) { _, place, model in
                (place.owner.flatMap { model.owners[$0]?.name } ?? "o3") < "o2"
            }
        }
    }
}
