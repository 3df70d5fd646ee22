// Ranks that ask for different things have different texts, whatever it is that differs.
#include "runtime/load_plan/request_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "compiler/support/error.h"
#include "runtime/load_plan/compile_for_job.h"
#include "runtime/load_plan/load_plan.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

SourceRequest Source(const std::vector<std::string>& set = {}) {
  SourceRequest source;
  source.path = "/nowhere";
  source.set = llvm::cantFail(ParseSettings(set));
  return source;
}

TEST(RequestTextTest, SaysAll) {
  SourceRequest source = Source({"layers=4", "gated=true", "kinds=[moe,dense]", "name=\"llama 2\""});
  source.spec = "llama";
  source.config = "config.json";
  source.unused = {"head=last"};
  source.drop_states = {"momentum"};
  source.preference = llvm::cantFail(ParseRankPreference("dp=0,tp=1"));
  EXPECT_EQ(RequestText(source, "universal", {"tag `t`"}),
            "`/nowhere` as `universal` with spec `llama`, config `config.json`, gated = true, kinds = [\"moe\", "
            "\"dense\"], layers = 4, name = \"llama 2\", `head=last` unused, state `momentum` dropped, rank dp=0 "
            "tp=1 preferred, tag `t`");
  EXPECT_EQ(RequestText(Source(), "", {}), "`/nowhere`");
}

// Also at the end of a list that no message would show.
TEST(RequestTextTest, AnyDifferenceIsOne) {
  std::vector<SourceRequest> sources = {Source(),        Source({"a=1"}),     Source({"a=2"}),
                                        Source({"b=1"}), Source({"a=\"1\""}), Source({"a=1.0"})};
  std::string list = "a=[x";
  for (int i = 0; i < 40; ++i) list += ",x";
  sources.push_back(Source({list + ",y]"}));
  sources.push_back(Source({list + ",z]"}));
  for (const auto& change : {std::function([](SourceRequest& one) { one.path = "/other"; }),
                             std::function([](SourceRequest& one) { one.spec = "x"; }),
                             std::function([](SourceRequest& one) { one.config = "x"; }),
                             std::function([](SourceRequest& one) { one.unused = {"x"}; }),
                             std::function([](SourceRequest& one) { one.drop_states = {"x"}; }),
                             std::function([](SourceRequest& one) { one.preference.named.at = {{"tp", 0}}; }),
                             std::function([](SourceRequest& one) { one.preference.named.at = {{"tp", 1}}; })}) {
    change(sources.emplace_back(Source()));
  }
  std::set<std::string> texts;
  for (const SourceRequest& source : sources) texts.insert(RequestText(source, "", {}));
  EXPECT_EQ(texts.size(), sources.size());
}

TEST(RequestTextTest, TheOrderOfNamesIsNone) {
  SourceRequest one = Source();
  one.drop_states = {"a", "b"};
  one.unused = {"c", "d"};
  SourceRequest other = Source();
  other.drop_states = {"b", "a"};
  other.unused = {"d", "c"};
  EXPECT_EQ(RequestText(one, "", {}), RequestText(other, "", {}));
}

// Of three ranks, the last one asks for something else.
template <typename Request, typename Compiling>
void ExpectRefused(const Request& request, const std::function<void(Request&)>& change, Compiling compile) {
  std::vector<std::string> errors(3);
  OnRanks(3, [&](Communicator& ranks) {
    Request mine = request;
    if (ranks.rank() == 2) change(mine);
    errors[static_cast<std::size_t>(ranks.rank())] = TakeFailure(compile(mine, ranks)).message;
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("rank 0 loads `/nowhere`"), HasSubstr(", and rank 2 loads `/nowhere`"),
                                 EndsWith("; all ranks load the same"))));
  EXPECT_THAT(errors, Each(errors[0]));
}

TEST(RequestTextTest, RanksLoadTheSame) {
  using Change = std::function<void(LoadRequest&)>;
  auto compile = [](const LoadRequest& request, Communicator& ranks) {
    return CompileLoad(RealFileSystem(), request, ranks).takeError();
  };
  LoadRequest request;
  request.compile.source = Source({"layers=4"});
  request.compile.target = "universal";
  for (const Change& change : {Change([](LoadRequest& one) { one.compile.source = Source({"layers=5"}); }),
                               Change([](LoadRequest& one) { one.compile.target = "safetensors"; }),
                               Change([](LoadRequest& one) { one.compile.settings.tag = "x"; }),
                               Change([](LoadRequest& one) { one.compile.settings.keep_opaque = {"x.Y"}; }),
                               Change([](LoadRequest& one) { one.compile.settings.job_config = "x.json"; }),
                               Change([](LoadRequest& one) { one.compile.replicas = ReplicaPolicy::kTrust; }),
                               Change([](LoadRequest& one) { one.is_checked = true; })}) {
    ExpectRefused<LoadRequest>(request, change, compile);
  }
}

TEST(RequestTextTest, RanksLoadTheSameIntoTheirTensors) {
  using Change = std::function<void(JobLoadRequest&)>;
  auto compile = [](const JobLoadRequest& request, Communicator& ranks) {
    return CompileForJob(RealFileSystem(), request, {}, ranks).takeError();
  };
  const JobLoadRequest request{Source({"layers=4"})};
  for (const Change& change : {Change([](JobLoadRequest& one) { one.source = Source({"layers=5"}); }),
                               Change([](JobLoadRequest& one) { one.source.unused = {"head=last"}; }),
                               Change([](JobLoadRequest& one) { one.source.preference.named.at = {{"tp", 1}}; }),
                               Change([](JobLoadRequest& one) { one.replicas = ReplicaPolicy::kTrust; }),
                               Change([](JobLoadRequest& one) { one.all_tensors = false; })}) {
    ExpectRefused<JobLoadRequest>(request, change, compile);
  }
}

}  // namespace
}  // namespace ucp
