// A sound plan with one thing made wrong: the verifier names it. The plan is of two tensors over two ranks: rows that
// are cut and padded, and queries that are cut beside keys that every rank holds.
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"
#include "tests/unit/compiler/verifier/verdict.h"

namespace ucp::oracle {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }

// Tensors: t0 [13, 3], rows padded to 20 and cut (10 and 3 real ones); t1 [8], of which [0, 6) is cut, [6, 8) is not.
// Sets of the source: the two halves of t0, then t1: all at tp=0; at tp=1 what is copied, and what is compared.
Plan SoundPlan() {
  std::vector<TensorCut> source = {{{Tp(ShapeExpr::Pad(N(13), 10)), N(3)}, {}},
                                   {{ShapeExpr::Sum({Tp(N(6)), N(2)})}, {}}};
  std::vector<TensorCut> target = {{{ShapeExpr::Product({N(13)}), Tp(ShapeExpr::Pad(N(3), 4))}, {}},
                                   {{ShapeExpr::Product({N(2), Tp(N(4))})}, {}}};
  auto compiled = Compile({source, target, {{{{"tp", 2}}}, Style::kFlat, 3, 1}, {{{{"tp", 2}}}, Style::kFlat, 2, 1}});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  return std::move(compiled->plan);
}

Progression& First(Plan& plan) { return plan.geometries[0].dims[0][0]; }

// The geometry of t1 whose only dimension is two progressions.
Geometry& OfTwo(Plan& plan) {
  for (Geometry& geometry : plan.geometries) {
    if (geometry.dims.size() == 1 && geometry.dims[0].size() > 1) return geometry;
  }
  ADD_FAILURE() << "no geometry has two progressions";
  return plan.geometries[0];
}

TEST(VerifierTest, AcceptsASoundPlan) { EXPECT_EQ(Verdict(SoundPlan()), "sound"); }

TEST(VerifierTest, GeometriesPairEqualPositions) {
  const char* pairs = "does not pair the positions of";
  ExpectRefused(
      SoundPlan,
      {
          {"drop a progression", [](Plan& p) { OfTwo(p).dims[0].pop_back(); }, pairs},
          {"double one", [](Plan& p) { p.geometries[0].dims[0].push_back(First(p)); }, pairs},
          {"swap two", [](Plan& p) { std::swap(OfTwo(p).dims[0][0], OfTwo(p).dims[0][1]); }, pairs},
          {"shift the source", [](Plan& p) { ++First(p).source_begin; }, pairs},
          {"shift the target", [](Plan& p) { ++First(p).target_begin; }, pairs},
          {"shift the position", [](Plan& p) { ++First(p).logical_begin; }, pairs},
          {"shift all", [](Plan& p) { ++First(p).source_begin, ++First(p).target_begin, ++First(p).logical_begin; },
           pairs},
          {"shorten", [](Plan& p) { --First(p).length; }, pairs},
          {"lengthen", [](Plan& p) { ++First(p).length; }, pairs},
          {"a second block", [](Plan& p) { ++First(p).count; }, pairs},
          {"no block", [](Plan& p) { First(p).count = 0; }, pairs},
          {"negative", [](Plan& p) { First(p).source_begin = -1; }, pairs},
          {"huge length", [](Plan& p) { First(p).length = kHuge; }, pairs},
          {"huge count", [](Plan& p) { First(p).count = kHuge; }, pairs},
          {"huge count of single positions",
           [](Plan& p) {
             Progression& first = First(p);
             first = {0, 0, 0, 1, kHuge, 1, 1, 1};
           },
           pairs},
          {"huge strides",
           [](Plan& p) { First(p).count = 2, First(p).source_stride = First(p).logical_stride = kHuge; }, pairs},
          {"a huge stride that no block follows", [](Plan& p) { First(p).source_stride = kHuge / 8; }, pairs},
          {"nothing in a dimension", [](Plan& p) { p.geometries[0].dims[0].clear(); }, "is empty in dimension 0"},
          {"a dimension too many", [](Plan& p) { p.geometries[0].dims.push_back({First(p)}); }, "dimensions"},
          {"an unknown set", [](Plan& p) { p.geometries[0].target = SetId(99); }, "names product sets 0 and 99"},
          {"another set", [](Plan& p) { p.geometries[0].source = p.geometries[2].source; }, ""},
          {"not sorted", [](Plan& p) { std::swap(p.geometries[0], p.geometries[1]); }, "its geometries are not sorted"},
          {"one twice", [](Plan& p) { p.geometries.insert(p.geometries.begin(), p.geometries[0]); }, "are not sorted"},
          {"one is missing", [](Plan& p) { p.geometries.erase(p.geometries.begin()); },
           "tensor `t0`: what [0..10, 0..3] and [0..13, 0..2] have in common has no geometry"},
      });
}

TEST(VerifierTest, ReadsHoldEveryElementOnce) {
  ExpectRefused(
      SoundPlan,
      {
          {"drop a read", [](Plan& p) { p.reads.erase(p.reads.begin()); }, "is in no shard of the source"},
          {"double a read", [](Plan& p) { p.reads.insert(p.reads.begin(), p.reads[0]); },
           "is in two shards of the source"},
          {"copy what is compared", [](Plan& p) { ReadOf(p, 1, ReadRole::kCompare).role = ReadRole::kCopy; },
           "is in two shards of the source"},
          {"compare what is copied", [](Plan& p) { ReadOf(p, 1, ReadRole::kCopy, 1).role = ReadRole::kCompare; },
           "is in no shard of the source"},
          {"leave out without a reason", [](Plan& p) { ReadOf(p, 1, ReadRole::kCompare).role = ReadRole::kUnused; },
           "a source shard of tensor `t1` is unused without a reason"},
          {"the other tensor's set", [](Plan& p) { std::swap(p.reads.front().set, p.reads.back().set); },
           "tensor `t0` has 2 dimensions and a shard of 1"},
          {"an unknown set", [](Plan& p) { p.reads[0].set = SetId(99); }, "tensor `t0` names product set 99"},
          {"an unknown tensor", [](Plan& p) { p.reads.back().tensor = TensorId(9); }, "a shard names tensor 9"},
          {"unknown states", [](Plan& p) { p.reads[0].states = BufferSetId(9); }, "tensor `t0` names states 9"},
          {"not sorted", [](Plan& p) { std::swap(p.reads.front(), p.reads.back()); }, "its reads are not sorted"},
          {"writes too", [](Plan& p) { std::swap(p.writes.front(), p.writes.back()); }, "its writes are not sorted"},
          {"base of a neighbour", [](Plan& p) { p.reads[0].base += 3; }, "would be read from one place of the source"},
          {"base behind the end", [](Plan& p) { ReadOf(p, 1, ReadRole::kCopy).base += 3; },
           "leave a buffer of 3 parts"},
          {"the other spread", [](Plan& p) { p.reads[0].spread = Spread::kEachTensor; },
           "is cut otherwise than its buffer"},
          {"two states from one buffer",
           [](Plan& p) { p.source.buffer_sets[0][0].buffer = p.source.buffer_sets[0][1].buffer; },
           "would be read from one place of the source"},
          {"negative base", [](Plan& p) { p.reads[0].base = -1; }, "tensor `t0` begins at element -1"},
          {"huge base", [](Plan& p) { p.reads[0].base = kHuge; }, "tensor `t0` begins at element"},
          {"strides over parts", [](Plan& p) { p.reads[0].strides = {3, 1}; },
           "tensor `t0` has strides that cannot be"},
          {"a position behind the shape", [](Plan& p) { p.tensors[0].logical.shape = {13, 2}; },
           "a shard of tensor `t0` holds position 2 of dimension 1, which has 2"},
          {"a longer tensor", [](Plan& p) { p.tensors[1].logical.shape = {9}; }, "is in no shard of the source"},
          {"a negative shape", [](Plan& p) { p.tensors[0].logical.shape = {-13, -3}; }, "has a dimension of -13"},
          {"too many dimensions", [](Plan& p) { p.tensors[0].logical.shape.resize(65, 1); }, "has 65 dimensions"},
          {"a state less", [](Plan& p) { p.tensors[0].logical.states.pop_back(); },
           "tensor `t0` is written in state fp32, which it lacks"},
          {"a state more", [](Plan& p) { p.tensors[0].logical.states.push_back({"momentum", DType::kFloat32}); },
           "state momentum, is in no shard of the source"},
      });
}

// Of tp=1's ten rows of t0, three are real.
TEST(VerifierTest, PaddingIsNotRead) {
  ExpectRefused(SoundPlan, {
                               {"padding becomes rows that another rank holds",
                                [](Plan& p) {
                                  Selection rows;
                                  rows.Append(0, 10);
                                  p.sets[ReadOf(p, 0, ReadRole::kCopy, 1).set.index()].dims[0] = rows;
                                },
                                ""},
                               {"padding becomes rows behind the last",
                                [](Plan& p) {
                                  Selection rows;
                                  rows.Append(10, 10);
                                  p.sets[ReadOf(p, 0, ReadRole::kCopy, 1).set.index()].dims[0] = rows;
                                },
                                "holds position 19 of dimension 0, which has 13"},
                               {"a part that ends before its elements",
                                [](Plan& p) { p.source.buffers[0].parts[0].elements -= 1; }, "a step reads element"},
                               {"decreasing rows",
                                [](Plan& p) {
                                  Selection rows;
                                  rows.Append(11, 2), rows.Append(10, 1);
                                  p.sets[0].dims[0] = rows;
                                },
                                "product set 0 is not increasing"},
                               {"a set of 2^62 elements",
                                [](Plan& p) { p.sets[0].dims = {Selection::Whole(kHuge / 2), Selection::Whole(2)}; },
                                "product set 0 has too many elements"},
                           });
}

TEST(VerifierTest, TargetBytesAreWrittenOnce) {
  ExpectRefused(
      SoundPlan,
      {
          {"remove ready-made bytes", [](Plan& p) { p.placements.pop_back(); }, "would be written never"},
          {"remove the header", [](Plan& p) { p.placements.erase(p.placements.begin()); }, "byte 0 of"},
          {"place them twice", [](Plan& p) { p.placements.push_back(p.placements[0]); }, "would be written twice"},
          {"shift them", [](Plan& p) { p.placements[0].offset += 1; }, "byte 0 of"},
          {"far away", [](Plan& p) { p.placements[0].offset = ~std::uint64_t{0} - 3; }, "would be written never"},
          {"in another file", [](Plan& p) { p.placements[0].file = FileId(1); }, "would be written never"},
          {"in no file", [](Plan& p) { p.placements[0].file = FileId(99); }, "are placed in file 99"},
          {"no such bytes", [](Plan& p) { p.placements[0].blob = BlobId(99); }, "ready-made bytes 99"},
          {"longer bytes", [](Plan& p) { p.blobs[0] += "x"; }, "would be written twice"},
          {"a longer file", [](Plan& p) { ++p.target.files[0].bytes; }, "would be written, and it has"},
          {"one more file", [](Plan& p) { p.target.files.push_back({"data/more", 1, ""}); },
           "0 bytes of `data/more` would be written, and it has 1"},
          {"a shifted record", [](Plan& p) { p.target.records[0].begin -= 2; }, "would be written"},
          {"a shorter record", [](Plan& p) { p.target.records[0].bytes -= 2; }, "leave a record of"},
          {"drop a write", [](Plan& p) { p.writes.erase(p.writes.begin()); }, "is in no shard of the target"},
          {"double a write", [](Plan& p) { p.writes.push_back(p.writes.back()); }, "would be written twice"},
          {"a shifted write", [](Plan& p) { p.writes[0].base += 1; }, "would be written"},
          {"a write that leaves its buffer", [](Plan& p) { p.writes[0].base += 50; }, "leave a buffer of 2 parts"},
          {"the other tensor's set",
           [](Plan& p) { std::swap(p.writes.front().pieces[0].set, p.writes.back().pieces[0].set); },
           "dimensions and a shard of"},
          {"both ranks write one set", [](Plan& p) { p.writes[0].pieces = p.writes[1].pieces; },
           "is in no shard of the target"},
          {"a shorter part", [](Plan& p) { p.target.buffers[0].parts[0].elements -= 1; }, "does not fit its place"},
          {"the other spread", [](Plan& p) { p.writes[0].spread = Spread::kEachTensor; }, "would be written"},
          {"a checksum among elements", [](Plan& p) { p.crc_fields[0].offset = 13; }, "is not in a header"},
          {"a checksum behind everything", [](Plan& p) { p.crc_fields[0].offset = ~std::uint64_t{0} - 1; },
           "is not in a header"},
          {"checksums that overlap",
           [](Plan& p) {
             p.crc_fields.push_back(p.crc_fields[0]);
             p.crc_fields.back().offset += 3;
           },
           "two checksums overlap"},
          {"a checksum in another file", [](Plan& p) { p.crc_fields[0].record = p.crc_fields[1].record; },
           "is not in a header"},
          {"a checksum of no record", [](Plan& p) { p.crc_fields[0].record = RecordId(99); },
           "a checksum of record 99"},
      });
}

TEST(VerifierTest, FilesAreOpenedByRanksOfTheJob) {
  auto make = [] {
    Plan plan = SoundPlan();
    plan.readers = MakeReaders(2, {plan.target.files.size(), {0, 1}});
    plan.readers.sets.push_back({});
    plan.readers.set_of_file.back() = 1;
    return plan;
  };
  EXPECT_EQ(Verdict(make()), "sound");
  ExpectRefused(
      make,
      {
          {"a file less", [](Plan& p) { p.readers.set_of_file.pop_back(); }, "it says who opens"},
          {"no file", [](Plan& p) { p.readers.set_of_file.clear(); }, "it says who opens 0 files, and writes"},
          {"an unknown set", [](Plan& p) { p.readers.set_of_file[0] = 2; }, "a file is opened by the set 2 of ranks"},
          {"a rank too many", [](Plan& p) { p.readers.sets[0].push_back(2); },
           "opened by rank 2 of 2, which is out of range"},
          {"a rank below the first", [](Plan& p) { p.readers.sets[0][0] = -1; }, "a file is opened by rank -1 of 2"},
          {"a rank twice", [](Plan& p) { p.readers.sets[0][1] = 0; },
           "opened by rank 0 of 2, which is out of range or out of order"},
          {"a set of no file", [](Plan& p) { p.readers.sets.push_back({1}); },
           "no file is opened by the set 2 of ranks"},
          {"a job of fewer than none",
           [](Plan& p) {
             p.readers = ReadByAll(p.target.files.size());
             p.readers.ranks = -1;
           },
           "its files are for -1 ranks"},
          {"a job without ranks", [](Plan& p) { p.readers.ranks = 0; }, "a file is opened by rank 0 of 0"},
      });
}

TEST(VerifierTest, TablesAreSane) {
  std::vector<Mutation> mutations;
  for (const char* path : {"../x", "/etc/x", "a//b", "", "a/../b", "./a", "a/", "a/."}) {
    mutations.push_back({"a target's path", [path](Plan& p) { p.target.files[0].path = path; }, "leaves its folder"});
    mutations.push_back({"a source's path", [path](Plan& p) { p.source.files[0].path = path; }, "leaves its folder"});
    mutations.push_back({"a folder", [path](Plan& p) { p.directories[0] = path; }, "leaves the target"});
  }
  mutations.push_back({"a NUL", [](Plan& p) { p.target.files[0].path.push_back('\0'); }, "leaves its folder"});
  mutations.push_back(
      {"one path twice", [](Plan& p) { p.target.files[1].path = p.target.files[0].path; }, "stands twice"});
  for (StorageTables Plan::* tables : {&Plan::source, &Plan::target}) {
    auto add = [&](const char* name, std::function<void(StorageTables&)> apply, const char* phrase) {
      mutations.push_back({name, [=](Plan& plan) { apply(plan.*tables); }, phrase});
    };
    add("a record behind its file", [](StorageTables& t) { t.records[0].begin += 1000; }, "from 1016 on leave");
    add("a record that wraps", [](StorageTables& t) { t.records[0].bytes = ~std::uint64_t{0} - 8; }, "on leave");
    add("a record of no file", [](StorageTables& t) { t.records[0].file = FileId(99); }, "a record names file 99");
    add("a buffer without parts", [](StorageTables& t) { t.buffers[0].parts.clear(); }, "buffer 0 has no parts");
    add(
        "a part of no record", [](StorageTables& t) { t.buffers[0].parts[0].record = RecordId(99); },
        "buffer 0 names record 99");
    add(
        "a part before its record", [](StorageTables& t) { t.buffers[0].parts[0].first_element = -1; },
        "leave a record of");
    add("a huge part", [](StorageTables& t) { t.buffers[0].parts[0].elements = kHuge; }, "leave a record of");
    add("a huge place", [](StorageTables& t) { t.buffers[0].parts[0].first_element = kHuge; }, "leave a record of");
    add("parts of no length", [](StorageTables& t) { t.buffers[0].part_elements = 0; }, "leave a buffer of");
    add("parts of negative length", [](StorageTables& t) { t.buffers[0].part_elements = -1; }, "parts of -1 elements");
    add("huge parts", [](StorageTables& t) { t.buffers[0].part_elements = kHuge; }, "");
    add(
        "a state of no buffer", [](StorageTables& t) { t.buffer_sets[0][0].buffer = BufferId(99); },
        "a state names buffer 99");
    add("a wider dtype", [](StorageTables& t) { t.buffers[0].dtype = DType::kFloat64; }, "leave a record of");
    add("an unnamed state", [](StorageTables& t) { t.buffer_sets[0][0].state.clear(); }, "");
  }
  ExpectRefused(SoundPlan, mutations);
}

}  // namespace
}  // namespace ucp::oracle
