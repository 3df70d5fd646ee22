#include <algorithm>

#include "tests/unit/compiler/verifier/damage_one.h"
#include "tests/unit/compiler/verifier/mutation.h"

namespace ucp::oracle {
namespace {

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

void DamageFused(Plan& plan, Random& random) {
  PlanWrite& write = Any(random, plan.writes);
  WrittenPiece& piece = Any(random, write.pieces);
  switch (Pick(random, 0, 6)) {
    case 0:
      return Disturb(random, piece.begin);
    case 1:
      return Disturb(random, Any(random, piece.strides));
    case 2:
      return Shuffle(random, piece.strides);
    case 3:
      if (write.fused) return Disturb(random, Any(random, write.fused->shape));
      return;
    case 4:
      if (write.fused && Pick(random, 0, 1) == 0) return Shuffle(random, write.fused->shape);
      write.fused = Any(random, plan.writes).fused;
      return;
    case 5:
      return std::swap(piece.begin, Any(random, write.pieces).begin);
    default:
      return std::swap(piece.tensor, Any(random, write.pieces).tensor);
  }
}

void DamageWrite(Plan& plan, Random& random) {
  PlanWrite& write = Any(random, plan.writes);
  switch (Pick(random, 0, 5)) {
    case 0:
      return Disturb(random, write.base);
    case 1:
      return Disturb(random, Any(random, write.pieces).set);
    case 2:
      return Disturb(random, Any(random, write.pieces).tensor);
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

std::vector<KindOfDamage> AllKinds() {
  std::vector<KindOfDamage> kinds = {
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
      {"a piece of a fused shard", DamageFused},
      {"another piece of a fused shard", DamageFused},
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
  };
  const std::vector<KindOfDamage> of_meaning = DamageOfMeaning();
  kinds.insert(kinds.end(), of_meaning.begin(), of_meaning.end());
  return kinds;
}

}  // namespace

std::string Damage(Plan& plan, Random& random) {
  static const std::vector<KindOfDamage> kinds = AllKinds();
  if (plan.geometries.empty()) return "nothing";
  const KindOfDamage& kind = kinds[static_cast<std::size_t>(Pick(random, 0, std::ssize(kinds) - 1))];
  kind.apply(plan, random);
  return kind.name;
}

}  // namespace ucp::oracle
