#include "runtime/engine/difference_tally.h"

#include <set>
#include <utility>

namespace ucp {

void DifferenceTally::Add(const Subject& subject, const DifferencePlace& first, std::uint64_t count,
                          llvm::function_ref<RankDecision()> describe) {
  std::lock_guard lock(mutex_);
  auto [entry, is_new] = counted_.try_emplace(subject);
  Counted& counted = entry->second;
  counted.by_write[first.write] += count;
  if (!is_new && counted.place <= first) return;
  counted.place = first;
  counted.first = describe();
}

std::vector<DifferenceTally::Entry> DifferenceTally::Entries() const {
  std::vector<Entry> entries;
  for (const auto& [subject, counted] : counted_) {
    Entry entry{subject, counted.place, counted.first, 0};
    std::set<std::vector<WrittenPiece>> parts;
    for (const auto& [write, count] : counted.by_write) {
      if (parts.insert(plan_.writes[write].pieces).second) entry.elements += count;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

void DifferenceTally::Save(wire::ByteWriter& writer) const {
  writer.Add(std::uint64_t{counted_.size()});
  for (const auto& [subject, counted] : counted_) {
    writer.Add(std::uint64_t{subject.first});
    writer.Add(subject.second);
    writer.Add(std::uint64_t{counted.place.write});
    writer.Add(counted.place.state);
    writer.Add(static_cast<std::uint64_t>(counted.place.element));
    writer.Add(std::uint64_t{counted.place.read});
    for (const std::string* text : {&counted.first.what, &counted.first.believed, &counted.first.believed_file,
                                    &counted.first.overruled, &counted.first.overruled_file}) {
      writer.Add(*text);
    }
    writer.Add(std::uint64_t{counted.by_write.size()});
    for (const auto& [write, count] : counted.by_write) {
      writer.Add(std::uint64_t{write});
      writer.Add(count);
    }
  }
}

void DifferenceTally::Restore(wire::ByteReader& reader, std::size_t subjects) {
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    std::uint64_t number = reader.Number();
    if (number >= subjects) return reader.Fail();
    auto [entry, is_new] = counted_.try_emplace({number, reader.Text()});
    Counted& counted = entry->second;
    DifferencePlace place;
    place.write = reader.Number();
    place.state = reader.Text();
    place.element = static_cast<std::int64_t>(reader.Number());
    place.read = reader.Number();
    RankDecision first;
    for (std::string* text :
         {&first.what, &first.believed, &first.believed_file, &first.overruled, &first.overruled_file}) {
      *text = reader.Text();
    }
    if (is_new || place < counted.place) {
      counted.place = std::move(place);
      counted.first = std::move(first);
    }
    for (std::uint64_t writes = reader.Count(); writes > 0; --writes) {
      std::uint64_t write = reader.Number();
      if (write >= plan_.writes.size()) return reader.Fail();
      counted.by_write[write] += reader.Number();
    }
  }
}

}  // namespace ucp
