// Tables that others point into come first, so that an id that differs is reported only where what it leads to is the
// same.
#include "compiler/plan/difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/plan/entry_text.h"
#include "compiler/plan/print.h"
#include "compiler/support/checksum.h"

namespace ucp {
namespace {

constexpr std::size_t kMostBytes = 240;
constexpr std::size_t kBytesBefore = 80;

// A window of `text` around byte `at`, whole code points.
std::string Window(const std::string& text, std::size_t at) {
  if (text.size() <= kMostBytes) return text;
  auto is_inside_code_point = [&](std::size_t i) { return i < text.size() && (text[i] & 0xC0) == 0x80; };
  std::size_t begin = at > kBytesBefore ? at - kBytesBefore : 0;
  while (is_inside_code_point(begin)) --begin;
  std::size_t end = std::min(text.size(), begin + kMostBytes);
  while (is_inside_code_point(end)) --end;
  return fmt::format("{}{}{}", begin > 0 ? "…" : "", text.substr(begin, end - begin), end < text.size() ? "…" : "");
}

// "1,234 bytes with the hash …, first of `zero/w/fp32.pt`"
std::string BlobText(const Plan& plan, std::size_t blob) {
  std::string text = fmt::format("{} bytes with the hash {}", plan.blobs[blob].size(), ContentHash(plan.blobs[blob]));
  for (const BlobPlacement& placement : plan.placements) {
    if (placement.blob != BlobId(blob)) continue;
    return text + fmt::format(", first of all in `{}`", plan.target.files[placement.file.index()].path);
  }
  return text;
}

class Comparison {
 public:
  Comparison(const Plan& first, const Plan& second) : first_(first), second_(second) {}

  std::optional<PlanDifference> Find() {
    CompareHeads();
    CompareStorage(first_.source, second_.source, "source");
    CompareStorage(first_.target, second_.target, "target");
    CompareShards();
    CompareReadyMade();
    return std::move(found_);
  }

 private:
  void CompareHeads() {
    Compare("the format of the source", first_.source_format, second_.source_format);
    Compare("the format of the target", first_.target_format, second_.target_format);
    Compare("the mesh of the source", ToString(first_.source_mesh), ToString(second_.source_mesh));
    Compare("the mesh of the target", ToString(first_.target_mesh), ToString(second_.target_mesh));
    Compare("the hash of the spec", first_.spec_hash, second_.spec_hash);
    Compare("the preferred rank", ToString(first_.preference.named), ToString(second_.preference.named));
    auto text = [](const Plan& plan, std::size_t i) { return EntryText(plan.decisions[i]); };
    CompareEntries("the decisions", &Plan::decisions, text);
  }

  void CompareStorage(const StorageTables& first, const StorageTables& second, const std::string& side) {
    auto compare = [&](const std::string& table, auto member, auto text) {
      CompareTables(
          fmt::format("the {} of the {}", table, side), (first.*member).size(), (second.*member).size(),
          [&](std::size_t i) { return text(first, i); }, [&](std::size_t i) { return text(second, i); });
    };
    using Tables = StorageTables;
    compare("files", &Tables::files, [](const Tables& t, std::size_t i) { return EntryText(t.files[i]); });
    compare("records", &Tables::records, [](const Tables& t, std::size_t i) { return EntryText(t, t.records[i]); });
    compare("buffers", &Tables::buffers, [](const Tables& t, std::size_t i) { return EntryText(t, t.buffers[i]); });
    compare("buffer sets", &Tables::buffer_sets,
            [](const Tables& t, std::size_t i) { return EntryText(t.buffer_sets[i]); });
  }

  void CompareShards() {
    CompareEntries("the tensors", &Plan::tensors,
                   [](const Plan& plan, std::size_t i) { return EntryText(plan.tensors[i]); });
    CompareEntries("the product sets", &Plan::sets,
                   [](const Plan& plan, std::size_t i) { return ToString(plan.sets[i]); });
    CompareEntries("the geometries", &Plan::geometries,
                   [](const Plan& plan, std::size_t i) { return EntryText(plan.geometries[i]); });
    CompareEntries("the reads", &Plan::reads,
                   [](const Plan& plan, std::size_t i) { return EntryText(plan, plan.reads[i]); });
    CompareEntries("the writes", &Plan::writes,
                   [](const Plan& plan, std::size_t i) { return EntryText(plan, plan.writes[i]); });
  }

  void CompareReadyMade() {
    CompareEntries("the directories", &Plan::directories,
                   [](const Plan& plan, std::size_t i) { return "`" + plan.directories[i] + "`"; });
    CompareEntries("the blobs", &Plan::blobs, BlobText);
    CompareEntries("the placements", &Plan::placements,
                   [](const Plan& plan, std::size_t i) { return EntryText(plan, plan.placements[i]); });
    CompareEntries("the checksum fields", &Plan::crc_fields,
                   [](const Plan& plan, std::size_t i) { return EntryText(plan, plan.crc_fields[i]); });
    auto readers = [](const Plan& plan, std::size_t i) {
      return fmt::format("`{}`{}", plan.target.files[i].path, ReadersText(plan, FileId(i)));
    };
    CompareTables(
        "the readers", first_.target.files.size(), second_.target.files.size(),
        [&](std::size_t i) { return readers(first_, i); }, [&](std::size_t i) { return readers(second_, i); });
  }

  // Of one plan and the other.
  template <typename Table, typename Text>
  void CompareEntries(const std::string& name, Table Plan::* table, Text text) {
    CompareTables(
        name, (first_.*table).size(), (second_.*table).size(), [&](std::size_t i) { return text(first_, i); },
        [&](std::size_t i) { return text(second_, i); });
  }

  template <typename FirstText, typename SecondText>
  void CompareTables(const std::string& name, std::size_t first, std::size_t second, FirstText first_text,
                     SecondText second_text) {
    for (std::size_t i = 0; i < std::max(first, second) && !found_; ++i) {
      Compare(fmt::format("entry {} of {}", i, name), i < first ? first_text(i) : "nothing",
              i < second ? second_text(i) : "nothing");
    }
  }

  void Compare(const std::string& what, const std::string& first, const std::string& second) {
    if (found_ || first == second) return;
    const auto at = static_cast<std::size_t>(
        std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin());
    found_ = PlanDifference{what, Window(first, at), Window(second, at)};
  }

  const Plan& first_;
  const Plan& second_;
  std::optional<PlanDifference> found_;
};

}  // namespace

std::optional<PlanDifference> FirstDifference(const Plan& first, const Plan& second) {
  return Comparison(first, second).Find();
}

}  // namespace ucp
