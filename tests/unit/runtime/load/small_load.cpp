#include "tests/unit/runtime/load/small_load.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"
#include "runtime/executor/execute.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/load/loaded_records.h"

namespace ucp {

SmallLoad::SmallLoad(SmallConversion finished)
    : load{finished.plan(), ReadByAll(finished.plan().target.files.size()), folder.path() + "/source"},
      records(AllRecords(finished.plan())),
      files_(finished.ExpectedFiles()) {
  if (llvm::Error error = VerifyPlan(load.plan)) ADD_FAILURE() << TakeFailure(std::move(error)).message;
  finished.WriteSource(load.source_folder);
}

std::map<RecordId, std::string> SmallLoad::Expected(const std::vector<RecordId>& of_records) const {
  return RecordsOfFiles(load.plan, of_records, files_);
}

SmallConversion RandomCuts(std::mt19937& random) {
  auto one_of = [&](std::vector<std::int64_t> values) { return values[random() % values.size()]; };
  auto cut = [&](bool is_target) {
    return SmallCut{.tp = one_of({1, 2}),
                    .cut_dim = one_of({0, 1}),
                    .fused = random() % 2 == 0,
                    .padding = one_of({0, 1}),
                    .dp = one_of({1, 2, 3}),
                    .spread = random() % 2 == 0 ? Spread::kAcrossBuffer : Spread::kEachTensor,
                    .alignment = one_of({1, 4}),
                    .weights = is_target && random() % 3 == 0};
  };
  SmallConversion small({{"a", {one_of({1, 6, 12}), 4}}, {"b", {one_of({8, 24})}}, {"c", {4, 6, one_of({1, 2, 3})}}});
  small.AddSource(cut(false));
  small.SetTarget(cut(true));
  small.Finish();
  return small;
}

SmallConversion OneLargeTensor() {
  SmallConversion small({{"a", {300, 4000}}});
  small.AddSource({.tp = 1, .cut_dim = 0, .dp = 2});
  small.SetTarget({.tp = 1, .cut_dim = 0, .dp = 2});
  small.Finish();
  return small;
}

ConvertedLoad Convert(const std::string& fixture, const std::string& target) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot(fixture);
  request.compile.target = target;
  ConvertedLoad converted;
  converted.load = llvm::cantFail(CompileLoad(RealFileSystem(), request, SingleProcess()));
  converted.records = AllRecords(converted.load.plan);
  const testing::TemporaryFolder folder;
  llvm::cantFail(Execute(converted.load.plan, converted.load.source_folder, folder.path(), RealFileSystem(), {}));
  converted.expected = RecordsOfFiles(converted.load.plan, converted.records, FilesUnder(folder.path()));
  return converted;
}

}  // namespace ucp
