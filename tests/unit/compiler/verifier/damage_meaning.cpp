#include <algorithm>
#include <optional>
#include <tuple>

#include "tests/unit/compiler/verifier/damage_one.h"

namespace ucp::oracle {
namespace {

// A byte of it, or its length.
void DamageBlob(Plan& plan, Random& random) {
  std::string& blob = Any(random, plan.blobs);
  if (blob.empty() || Pick(random, 0, 7) == 0) return Shuffle(random, plan.blobs);
  const auto at = static_cast<std::size_t>(Pick(random, 0, std::ssize(blob) - 1));
  blob[at] = static_cast<char>(blob[at] ^ static_cast<char>(1 << Pick(random, 0, 7)));
}

// Two shards change places, and nobody who looks at the files would know.
void ExchangeWrites(Plan& plan, Random& random) {
  PlanWrite& a = Any(random, plan.writes);
  PlanWrite& b = Any(random, plan.writes);
  std::swap(a.states, b.states);
  std::swap(a.base, b.base);
}

// Of two states of one shard, or of two shards.
void ExchangeBuffers(Plan& plan, Random& random) {
  StorageTables& tables = Pick(random, 0, 1) == 0 ? plan.source : plan.target;
  BufferSet& a = Any(random, tables.buffer_sets);
  BufferSet& b = Pick(random, 0, 1) == 0 ? a : Any(random, tables.buffer_sets);
  std::swap(Any(random, a).buffer, Any(random, b).buffer);
}

bool IsComparison(const PlanRead& read) {
  return read.role == ReadRole::kCompare || read.role == ReadRole::kCheckRounding;
}

void StopComparing(Plan& plan, std::optional<TensorId> only = std::nullopt) {
  for (PlanRead& read : plan.reads) {
    if (!IsComparison(read) || (only && read.tensor != *only)) continue;
    read.role = ReadRole::kUnused;
    read.reason = "nobody asked for it";
    read.is_overruled = false;
  }
  std::stable_sort(plan.reads.begin(), plan.reads.end(), [](const PlanRead& a, const PlanRead& b) {
    return std::tuple(a.tensor, a.term, a.role) < std::tuple(b.tensor, b.term, b.role);
  });
}

void StopComparingOne(Plan& plan, Random& random) { StopComparing(plan, Any(random, plan.reads).tensor); }

void DamageSourceChecksum(Plan& plan, Random& random) {
  Record& record = Any(random, plan.source.records);
  if (!record.crc32 || Pick(random, 0, 1) == 0) {
    record.crc32 = std::nullopt;
  } else {
    record.crc32 = *record.crc32 ^ 1u << Pick(random, 0, 31);
  }
}

void DamageArithmetic(Plan& plan, Random& random) {
  Arithmetic& arithmetic = Any(random, plan.tensors).arithmetic;
  Scale& scale = Pick(random, 0, 1) == 0 ? arithmetic.divisor : arithmetic.factor;
  Disturb(random, Pick(random, 0, 1) == 0 ? scale.numerator : scale.denominator);
}

void DamageReaders(Plan& plan, Random& random) {
  FileReaders& readers = plan.readers;
  std::vector<int>& ranks = Any(random, readers.sets);
  if (!ranks.empty() && Pick(random, 0, 1) == 0) return Shuffle(random, ranks);
  std::swap(Any(random, readers.set_of_file), Any(random, readers.set_of_file));
}

}  // namespace

std::vector<KindOfDamage> DamageOfMeaning() {
  return {
      {"a checksum's place", [](Plan& p, Random& r) { Disturb(r, Any(r, p.crc_fields).offset); }},
      {"a checksum's record", [](Plan& p, Random& r) { Disturb(r, Any(r, p.crc_fields).record); }},
      {"the checksums", [](Plan& p, Random& r) { Shuffle(r, p.crc_fields); }},
      {"a blob", DamageBlob},
      {"two writes", ExchangeWrites},
      {"two buffers of states", ExchangeBuffers},
      {"a comparison", [](Plan& p, Random&) { StopComparing(p); }},
      {"the comparisons with one tensor", StopComparingOne},
      {"the CRC-32 of a source's record", DamageSourceChecksum},
      {"what is done to a tensor's numbers", DamageArithmetic},
      {"the directories", [](Plan& p, Random& r) { Shuffle(r, p.directories); }},
      {"the readers", DamageReaders},
  };
}

}  // namespace ucp::oracle
