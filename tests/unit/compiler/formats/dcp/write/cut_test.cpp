#include "compiler/formats/dcp/write/cut.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;

// "0..2, 0..6 of rank 0", one for each box.
std::vector<std::string> BoxesOf(const WriteOptions& options, Layout layout, const LogicalTensor& tensor,
                                 const PartOfJob* part = nullptr, const MachineFiles* machines = nullptr) {
  if (llvm::Error error = CutIntoBoxes(options, part, machines, {&tensor, 1}, layout))
    return {TakeFailure(std::move(error)).message};
  std::vector<std::string> lines;
  const TensorLayout& cut = layout.tensors.front();
  for (std::size_t b = 0; b < cut.box_ranks.size(); ++b) {
    const std::string box = cut.boxes.empty() ? "whole" : ToString(cut.boxes[b]);
    lines.push_back(fmt::format("{} of rank {}", box, cut.box_ranks[b]));
  }
  return lines;
}

LogicalTensor TensorOf(std::vector<std::int64_t> shape, TensorKind kind = TensorKind::kParameter) {
  LogicalTensor tensor;
  tensor.name = "a";
  tensor.kind = kind;
  tensor.shape = std::move(shape);
  tensor.states = {{kMasterState, DType::kFloat32}};
  return tensor;
}

Layout LayoutOf(std::vector<ShapeExpr> dims, std::int64_t tp) {
  Layout layout;
  layout.mesh.axes = {{"tp", tp}};
  layout.tensors.emplace_back().name = "a";
  layout.tensors.front().dims = std::move(dims);
  return layout;
}

WriteOptions Fsdp(std::int64_t ranks) {
  WriteOptions options;
  options.fsdp = ranks;
  return options;
}

// As PyTorch 2.13 gives 10 rows to 2 x 2 ranks with (_StridedShard(0, split_factor=2), Shard(0)).
TEST(CutTest, RowsOfTpAreCutAgain) {
  const Layout layout = LayoutOf({ShapeExpr::Cut(ShapeExpr::Length(10), {"tp"}), ShapeExpr::Length(6)}, 2);
  EXPECT_THAT(BoxesOf(Fsdp(2), layout, TensorOf({10, 6})),
              ElementsAre("[0..3, 0..6] of rank 0", "[3..5, 0..6] of rank 2", "[5..8, 0..6] of rank 1",
                          "[8..10, 0..6] of rank 3"));
}

TEST(CutTest, ColumnsOfTp) {
  const Layout layout = LayoutOf({ShapeExpr::Length(3), ShapeExpr::Cut(ShapeExpr::Length(4), {"tp"})}, 2);
  EXPECT_THAT(BoxesOf(Fsdp(4), layout, TensorOf({3, 4})),
              ElementsAre("[0..1, 0..2] of rank 0", "[1..2, 0..2] of rank 2", "[2..3, 0..2] of rank 4",
                          "[0..1, 2..4] of rank 1", "[1..2, 2..4] of rank 3", "[2..3, 2..4] of rank 5"));
}

// Ranks behind the last row hold nothing; ranks of tp that hold the same share it out.
TEST(CutTest, FewRowsAndCopies) {
  EXPECT_THAT(BoxesOf(Fsdp(4), LayoutOf({ShapeExpr::Length(5)}, 1), TensorOf({5})),
              ElementsAre("[0..2] of rank 0", "[2..4] of rank 1", "[4..5] of rank 2"));
  EXPECT_THAT(BoxesOf(Fsdp(2), LayoutOf({ShapeExpr::Length(4)}, 2), TensorOf({4})),
              ElementsAre("[0..2] of rank 0", "[2..4] of rank 2"));
}

TEST(CutTest, BuffersNumbersAndNothing) {
  EXPECT_THAT(BoxesOf(Fsdp(4), LayoutOf({ShapeExpr::Length(8)}, 1), TensorOf({8}, TensorKind::kBuffer)),
              ElementsAre("whole of rank 0"));
  EXPECT_THAT(BoxesOf(Fsdp(4), LayoutOf({}, 1), TensorOf({})), ElementsAre("whole of rank 0"));
  EXPECT_THAT(BoxesOf(Fsdp(4), LayoutOf({ShapeExpr::Length(0), ShapeExpr::Length(3)}, 1), TensorOf({0, 3})),
              ElementsAre("whole of rank 0"));
}

// A tensor that is larger than a file may be is cut by rows.
TEST(CutTest, FilesOfEqualSize) {
  WriteOptions options;
  options.files = 3;
  EXPECT_THAT(BoxesOf(options, LayoutOf({ShapeExpr::Length(9), ShapeExpr::Length(2)}, 1), TensorOf({9, 2})),
              ElementsAre("[0..3, 0..2] of rank 0", "[3..6, 0..2] of rank 1", "[6..9, 0..2] of rank 2"));
}

// One that is still larger than a file may be is cut along the next dimension.
TEST(CutTest, SinglePositions) {
  WriteOptions options;
  options.equal_parts = {{"a", {2}}};
  const Layout layout = LayoutOf({ShapeExpr::Length(2), ShapeExpr::Length(6)}, 1);
  EXPECT_THAT(BoxesOf(options, layout, TensorOf({2, 6})),
              ElementsAre("[0..1, 0..6] of rank 0", "[1..2, 0..6] of rank 0"));
  options.files = 4;
  EXPECT_THAT(BoxesOf(options, layout, TensorOf({2, 6})),
              ElementsAre("[0..1, 0..3] of rank 0", "[0..1, 3..6] of rank 1", "[1..2, 0..3] of rank 2",
                          "[1..2, 3..6] of rank 3"));
}

// A part of a job's tensor is cut where there is a gap in that, and nowhere else: `files` would depend on the machine.
TEST(CutTest, PartOfAJob) {
  WriteOptions options;
  options.files = 3;
  PartOfJob part;
  part.tensors["a"] = {{40, 2}, {{{5, 10}, {20, 24}}, {{0, 2}}}};
  const Layout layout = LayoutOf({ShapeExpr::Length(9), ShapeExpr::Length(2)}, 1);
  EXPECT_THAT(BoxesOf(options, layout, TensorOf({9, 2}), &part),
              ElementsAre("[0..5, 0..2] of rank 0", "[5..9, 0..2] of rank 0"));
  part.tensors.clear();
  EXPECT_THAT(BoxesOf(options, layout, TensorOf({9, 2}), &part), ElementsAre("whole of rank 0"));
}

TEST(CutTest, BoxesOfMachines) {
  const MachineFiles machines{3, {{"a", {{{{{0, 4}}, {{0, 2}}}, 2}, {{{{4, 5}}, {{0, 2}}}, 0}}}}};
  const Layout layout = LayoutOf({ShapeExpr::Length(5), ShapeExpr::Length(2)}, 1);
  EXPECT_THAT(BoxesOf({}, layout, TensorOf({5, 2}), nullptr, &machines),
              ElementsAre("[0..4, 0..2] of rank 2", "[4..5, 0..2] of rank 0"));
  const MachineFiles of_others{3, {}};  // A tensor that no rank holds under its name.
  EXPECT_THAT(BoxesOf({}, layout, TensorOf({5, 2}), nullptr, &of_others), ElementsAre("whole of rank 0"));
}

// A layout of the target may give a rank's name to a tensor of another shape.
TEST(CutTest, BoxesOfMachinesOfAnotherShape) {
  const MachineFiles machines{3, {{"a", {{{{{0, 4}}, {{0, 2}}}, 2}, {{{{4, 5}}, {{0, 2}}}, 1}}}}};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2, 5}, {4, 2}, {6, 2}, {10}}) {
    std::vector<ShapeExpr> lengths;
    for (std::int64_t length : shape) lengths.push_back(ShapeExpr::Length(length));
    EXPECT_THAT(BoxesOf({}, LayoutOf(lengths, 1), TensorOf(shape), nullptr, &machines), ElementsAre("whole of rank 0"));
  }
}

TEST(CutTest, MachinesHaveFilesOfTheirOwn) {
  const MachineFiles machines{2, {}};
  WriteOptions files;
  files.files = 2;
  for (const WriteOptions& options : {Fsdp(2), files}) {
    EXPECT_THAT(BoxesOf(options, LayoutOf({ShapeExpr::Length(4)}, 1), TensorOf({4}), nullptr, &machines),
                ElementsAre(::testing::StartsWith("`fsdp`, `tp` and `files` say which files a dcp folder has")));
  }
}

}  // namespace
}  // namespace ucp::dcp
