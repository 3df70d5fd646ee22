#include "tests/unit/compiler/verifier/mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"

namespace ucp::oracle {
namespace {

// Mostly a small step, at times an end of the range.
std::int64_t Disturbed(Random& random, std::int64_t number) {
  constexpr std::int64_t kFar[] = {0,
                                   -1,
                                   1,
                                   std::int64_t{1} << 31,
                                   std::int64_t{1} << 60,
                                   std::int64_t{1} << 62,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()};
  if (Pick(random, 0, 3) == 0) return kFar[Pick(random, 0, 7)];
  std::int64_t step = Pick(random, 1, 3);
  auto moved = static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(Pick(random, 0, 1) == 0 ? step : -step);
  return static_cast<std::int64_t>(moved);
}

void Disturb(Random& random, std::int64_t& number) { number = Disturbed(random, number); }

void Disturb(Random& random, std::uint64_t& number) {
  number = static_cast<std::uint64_t>(Disturbed(random, static_cast<std::int64_t>(number)));
}

template <typename Tag>
void Disturb(Random& random, TypedId<Tag>& id) {
  id = TypedId<Tag>(static_cast<std::size_t>(Disturbed(random, static_cast<std::int64_t>(id.index()))));
}

template <typename Item>
Item& Any(Random& random, std::vector<Item>& items) {
  return items[static_cast<std::size_t>(Pick(random, 0, std::ssize(items) - 1))];
}

// Removes, doubles or exchanges rows of a table.
template <typename Item>
void Shuffle(Random& random, std::vector<Item>& items) {
  if (items.empty()) return;
  auto at = items.begin() + Pick(random, 0, std::ssize(items) - 1);
  switch (Pick(random, 0, 2)) {
    case 0:
      items.erase(at);
      return;
    case 1:
      items.insert(at, Item(*at));
      return;
    default:
      std::swap(*at, Any(random, items));
  }
}

void DamageSelection(Plan& plan, Random& random) {
  ProductSet& set = Any(random, plan.sets);
  if (set.dims.empty()) return;
  Selection& dim = Any(random, set.dims);
  Selection damaged;
  for (Run run : dim.runs()) {
    std::int64_t gap = run.local_begin - damaged.local_length();
    if (Pick(random, 0, 2) == 0) gap += Pick(random, 0, 1);
    if (gap > 0) damaged.AppendPadding(gap);
    if (Pick(random, 0, 2) == 0) run.logical_begin += Pick(random, 0, 2);
    if (Pick(random, 0, 2) == 0) run.length += Pick(random, 0, 1);
    damaged.Append(run.logical_begin, run.length);
  }
  if (damaged.local_length() < dim.local_length()) {
    damaged.AppendPadding(dim.local_length() - damaged.local_length());
  }
  dim = damaged;
}

void DamageProgression(Plan& plan, Random& random) {
  if (plan.geometries.empty()) return;
  Geometry& geometry = Any(random, plan.geometries);
  if (geometry.dims.empty()) return;
  Progression& p = Any(random, Any(random, geometry.dims));
  std::int64_t Progression::* fields[] = {&Progression::source_begin,  &Progression::target_begin,
                                          &Progression::logical_begin, &Progression::length,
                                          &Progression::count,         &Progression::source_stride,
                                          &Progression::target_stride, &Progression::logical_stride};
  for (std::int64_t more = Pick(random, 1, 3); more > 0; --more) Disturb(random, p.*fields[Pick(random, 0, 7)]);
}

void DamageTables(StorageTables& tables, Random& random) {
  Buffer& buffer = Any(random, tables.buffers);
  switch (Pick(random, 0, 9)) {
    case 0:
      return Disturb(random, Any(random, tables.files).bytes);
    case 1:
      return Disturb(random, Any(random, tables.records).begin);
    case 2:
      return Disturb(random, Any(random, tables.records).bytes);
    case 3:
      return Disturb(random, Any(random, tables.records).file);
    case 4:
      return Disturb(random, buffer.part_elements);
    case 5:
      return Disturb(random, Any(random, buffer.parts).elements);
    case 6:
      return Disturb(random, Any(random, buffer.parts).record);
    case 7:
      return Disturb(random, Any(random, Any(random, tables.buffer_sets)).buffer);
    case 8:
      return Shuffle(random, buffer.parts);
    default:
      return Shuffle(random, tables.files);
  }
}

void DamageRead(Plan& plan, Random& random) {
  PlanRead& read = Any(random, plan.reads);
  switch (Pick(random, 0, 6)) {
    case 0:
      return Disturb(random, read.base);
    case 1:
      return Disturb(random, read.set);
    case 2:
      return Disturb(random, read.tensor);
    case 3:
      return Disturb(random, read.states);
    case 4:
      read.role = static_cast<ReadRole>(Pick(random, 0, 3));
      return;
    case 5:
      read.spread = read.spread == Spread::kAcrossBuffer ? Spread::kEachTensor : Spread::kAcrossBuffer;
      return;
    default:
      std::swap(read.set, Any(random, plan.reads).set);
  }
}

void DamageWrite(Plan& plan, Random& random) {
  PlanWrite& write = Any(random, plan.writes);
  switch (Pick(random, 0, 5)) {
    case 0:
      return Disturb(random, write.base);
    case 1:
      return Disturb(random, Any(random, write.pieces));
    case 2:
      return Disturb(random, write.tensor);
    case 3:
      return Disturb(random, write.states);
    case 4:
      write.spread = write.spread == Spread::kAcrossBuffer ? Spread::kEachTensor : Spread::kAcrossBuffer;
      return;
    default:
      if (Pick(random, 0, 1) == 0) return Shuffle(random, write.pieces);
      std::swap(Any(random, write.pieces), Any(random, Any(random, plan.writes).pieces));
  }
}

void DamageShape(Plan& plan, Random& random) {
  std::vector<std::int64_t>& shape = Any(random, plan.tensors).logical.shape;
  if (!shape.empty() && Pick(random, 0, 2) != 0) return Disturb(random, Any(random, shape));
  Shuffle(random, shape);
}

// The buffers of a side, and the states that tensors say they have.
void DamageType(Plan& plan, Random& random) {
  constexpr DType kTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64,
                              DType::kInt16,    DType::kInt32,   DType::kInt64,   DType::kUInt8};
  DType other = kTypes[Pick(random, 0, 7)];
  std::vector<LogicalTensor::State>& states = Any(random, plan.tensors).logical.states;
  switch (Pick(random, 0, 2)) {
    case 0:
      Any(random, plan.source.buffers).dtype = other;
      return;
    case 1:
      Any(random, plan.target.buffers).dtype = other;
      return;
    default:
      if (!states.empty()) Any(random, states).dtype = other;
  }
}

void DamageState(Plan& plan, Random& random) {
  constexpr const char* kNames[] = {"exp_avg", "fp32", "weight"};
  StorageTables& tables = Pick(random, 0, 1) == 0 ? plan.source : plan.target;
  Any(random, Any(random, tables.buffer_sets)).state = kNames[Pick(random, 0, 2)];
}

struct Kind {
  const char* name;
  void (*apply)(Plan&, Random&);
};

constexpr Kind kKinds[] = {
    {"a progression", DamageProgression},
    {"rows of a geometry's dimension",
     [](Plan& p, Random& r) {
       Geometry& geometry = Any(r, p.geometries);
       if (!geometry.dims.empty()) Shuffle(r, Any(r, geometry.dims));
     }},
    {"a geometry's dimensions", [](Plan& p, Random& r) { Shuffle(r, Any(r, p.geometries).dims); }},
    {"the geometries", [](Plan& p, Random& r) { Shuffle(r, p.geometries); }},
    {"a geometry's source", [](Plan& p, Random& r) { Disturb(r, Any(r, p.geometries).source); }},
    {"a geometry's target", [](Plan& p, Random& r) { Disturb(r, Any(r, p.geometries).target); }},
    {"a product set", DamageSelection},
    {"the product sets", [](Plan& p, Random& r) { Shuffle(r, p.sets); }},
    {"a read", DamageRead},
    {"a term", [](Plan& p, Random& r) { Disturb(r, Any(r, p.reads).term); }},
    {"the number of terms", [](Plan& p, Random& r) { Disturb(r, Any(r, p.tensors).arithmetic.terms); }},
    {"the reads", [](Plan& p, Random& r) { Shuffle(r, p.reads); }},
    {"a write", DamageWrite},
    {"the writes", [](Plan& p, Random& r) { Shuffle(r, p.writes); }},
    {"a tensor's shape", DamageShape},
    {"a tensor's states", [](Plan& p, Random& r) { Shuffle(r, Any(r, p.tensors).logical.states); }},
    {"a type", DamageType},
    {"the name of a state", DamageState},
    {"the source's tables", [](Plan& p, Random& r) { DamageTables(p.source, r); }},
    {"the target's tables", [](Plan& p, Random& r) { DamageTables(p.target, r); }},
    {"the placements", [](Plan& p, Random& r) { Shuffle(r, p.placements); }},
    {"a placement's offset", [](Plan& p, Random& r) { Disturb(r, Any(r, p.placements).offset); }},
    {"a placement's file", [](Plan& p, Random& r) { Disturb(r, Any(r, p.placements).file); }},
    {"a placement's blob", [](Plan& p, Random& r) { Disturb(r, Any(r, p.placements).blob); }},
    {"a checksum's place", [](Plan& p, Random& r) { Disturb(r, Any(r, p.crc_fields).offset); }},
    {"a checksum's record", [](Plan& p, Random& r) { Disturb(r, Any(r, p.crc_fields).record); }},
};

// A record may say that it has more bytes than anyone would read, a set that it ends with endless padding; the oracle
// keeps every place.
bool IsTooLarge(const Plan& plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  auto is_long = [](const Record& record) { return record.bytes > static_cast<std::uint64_t>(kMost); };
  return std::any_of(plan.source.records.begin(), plan.source.records.end(), is_long) ||
         std::any_of(plan.target.records.begin(), plan.target.records.end(), is_long) ||
         std::any_of(plan.sets.begin(), plan.sets.end(),
                     [](const ProductSet& set) { return set.local_elements() > kMost; });
}

// The oracle counts a record's places in elements, so it cannot follow a record that has two types.
bool HasARecordOfTwoTypes(const StorageTables& tables) {
  std::map<RecordId, std::int64_t> item_bytes;
  for (const Buffer& buffer : tables.buffers) {
    for (const BufferPart& part : buffer.parts) {
      std::int64_t bytes = ItemBytes(buffer.dtype);
      if (item_bytes.try_emplace(part.record, bytes).first->second != bytes) return true;
    }
  }
  return false;
}

}  // namespace

std::string Damage(Plan& plan, Random& random) {
  const Kind& kind = kKinds[Pick(random, 0, std::ssize(kKinds) - 1)];
  bool has_geometries = !plan.geometries.empty();
  if (!has_geometries) return "nothing";
  kind.apply(plan, random);
  return kind.name;
}

std::string WronglyAccepted(const Plan& plan, bool& refused) {
  llvm::Error error = VerifyPlan(plan);
  refused = static_cast<bool>(error);
  if (refused) {
    std::string message = Describe(std::move(error)).message;
    return message.starts_with("the plan is not sound: ") ? "" : "refused without a reason: " + message;
  }
  if (IsTooLarge(plan) || HasARecordOfTwoTypes(plan.source) || HasARecordOfTwoTypes(plan.target)) return "";
  // What differs in a replica is found when it is compared; the copies must be right by themselves.
  Plan copies = plan;
  std::erase_if(copies.reads, [](const PlanRead& read) { return read.role != ReadRole::kCopy; });
  if (std::string flaw = FlawOfCasts(plan); !flaw.empty()) return flaw;
  std::optional<Memory> source = SourceAsThePlanSays(copies);
  std::optional<Memory> target = TargetAsThePlanSays(copies);
  // Strided tensors may lie within each other; whether they do is not proved.
  bool is_strided =
      std::any_of(copies.reads.begin(), copies.reads.end(), [](const PlanRead& read) { return !read.strides.empty(); });
  if (!source && is_strided) return "";
  if (!source) return "two elements stand in one place of the source";
  if (!target) return "two elements stand in one place of the target";
  Outcome outcome = Execute(copies, *source);
  return outcome.problem.empty() ? Difference(plan.target, *target, outcome.target) : outcome.problem;
}

}  // namespace ucp::oracle
