#include "compiler/formats/dcp/entries/roles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Entry EntryOf(std::vector<PathPart> path, bool is_tensor) {
  Entry entry;
  for (const PathPart& part : path) {
    const auto* text = std::get_if<std::string>(&part);
    entry.key +=
        (entry.key.empty() ? "" : ".") + (text != nullptr ? *text : std::to_string(std::get<std::int64_t>(part)));
  }
  entry.path = std::move(path);
  entry.is_tensor = is_tensor;
  return entry;
}
Entry Tensor(std::vector<PathPart> path) { return EntryOf(std::move(path), true); }
Entry Value(std::vector<PathPart> path) { return EntryOf(std::move(path), false); }

// One line for each entry with its role.
std::vector<std::string> Lines(const std::vector<Entry>& entries, bool has_paths = true) {
  auto roles = FindRoles(entries, has_paths);
  if (!roles) return {TakeFailure(roles.takeError()).message};
  std::vector<std::string> lines;
  for (const ModelEntry& entry : roles->tensors) lines.push_back("tensor " + entry.name);
  for (const ModelEntry& entry : roles->extras) lines.push_back("extra " + entry.name);
  for (const StateEntry& entry : roles->states) lines.push_back(entry.state + " of " + entry.parameter);
  for (const GroupEntry& entry : roles->groups) {
    std::string line = entry.group ? fmt::format("group {}", *entry.group) : "group of " + entry.parameter;
    for (const PathPart& part : entry.path) line += " " + std::get<std::string>(part);
    lines.push_back(line);
  }
  for (const OtherEntry& entry : roles->optimizer) lines.push_back("optimizer " + entry.entry->key);
  for (const OtherEntry& entry : roles->others) lines.push_back("other " + entry.entry->key);
  if (!roles->unread_optimizer.empty()) lines.push_back(roles->unread_optimizer);
  return lines;
}

TEST(Roles, OfATrainingScript) {
  EXPECT_THAT(
      Lines({Tensor({"model", "a.weight"}), Value({"model", "a._extra_state"}),
             Tensor({"optimizer", "state", "a.weight", "exp_avg"}), Tensor({"optimizer", "state", "a.weight", "step"}),
             Value({"optimizer", "param_groups", 0, "params"}), Value({"optimizer", "scale"}), Value({"step"})}),
      ElementsAre("tensor a.weight", "extra a._extra_state", "exp_avg of a.weight", "step of a.weight",
                  "group 0 params", "optimizer optimizer.scale", "other step"));
}

// Parts of flattened names are one component.
TEST(Roles, OfTorchTitan) {
  EXPECT_THAT(Lines({Tensor({"layers.0.w.weight"}), Tensor({"optimizer", "state.layers.0.w.weight.exp_avg"}),
                     Value({"optimizer", "param_groups.layers.0.w.weight.lr"}), Tensor({"train_state", "step"}),
                     Value({"lr_scheduler", "last_epoch"})}),
              ElementsAre("tensor layers.0.w.weight", "exp_avg of layers.0.w.weight", "group of layers.0.w.weight lr",
                          "other train_state.step", "other lr_scheduler.last_epoch"));
}

TEST(Roles, OfStatefulAndLightning) {
  EXPECT_THAT(Lines({Tensor({"app", "model", "a.weight"}), Tensor({"app", "optim", "state", "a.weight", "exp_avg"})}),
              ElementsAre("tensor a.weight", "exp_avg of a.weight"));
  EXPECT_THAT(
      Lines({Tensor({"state_dict", "model.a.weight"}), Tensor({"optimizer_0", "state", "model.a.weight", "exp_avg"})}),
      ElementsAre("tensor model.a.weight", "exp_avg of model.a.weight"));
}

// A model of Hugging Face has an attribute of that name.
TEST(Roles, AModelInAModel) {
  EXPECT_THAT(Lines({Tensor({"model", "model.a.weight"}), Tensor({"model", "lm_head.weight"})}),
              ElementsAre("tensor model.a.weight", "tensor lm_head.weight"));
  EXPECT_THAT(Lines({Tensor({"model.a.weight"}), Tensor({"lm_head.weight"})}),
              ElementsAre("tensor model.a.weight", "tensor lm_head.weight"));
  EXPECT_THAT(Lines({Tensor({"model.a.weight"}), Tensor({"optimizer", "state.model.a.weight.exp_avg"})}),
              ElementsAre("tensor model.a.weight", "exp_avg of model.a.weight"));
}

TEST(Roles, WithoutPaths) {
  EXPECT_THAT(Lines({Tensor({"model.a.weight"}), Tensor({"optimizer.state.a.weight.exp_avg"}),
                     Value({"optimizer.param_groups.0.lr"}), Value({"optimizer.param_groups"})},
                    false),
              ElementsAre("tensor a.weight", "exp_avg of a.weight", "group 0 lr", "group of "));
}

TEST(Roles, AveragedWeightsAreNotTheModel) {
  EXPECT_THAT(Lines({Tensor({"ema", "a.weight"}), Tensor({"model", "a.weight"}),
                     Tensor({"optimizer", "state", "a.weight", "exp_avg"})}),
              ElementsAre("tensor a.weight", "exp_avg of a.weight", "other ema.a.weight"));
  EXPECT_THAT(Lines({Tensor({"g", "a.weight"}), Tensor({"d", "a.weight"}),
                     Tensor({"optimizer", "state", "a.weight", "exp_avg"})}),
              ElementsAre("the optimizer's parameters stand below `d` and below `g`, and nothing says which are the "
                          "model's; save the model under the key `model`, and others under other names"));
}

TEST(Roles, ModulesThatAreCalledAsOptimizersAre) {
  EXPECT_THAT(Lines({Tensor({"model", "a"}), Tensor({"model", "optimizer", "state", "x"}),
                     Tensor({"optimizer", "state", "a", "m"})}),
              ElementsAre("tensor a", "tensor optimizer.state.x", "m of a"));
}

TEST(Roles, NamesLoseWrappers) {
  EXPECT_THAT(Lines({Tensor({"model", "module._orig_mod.a._checkpoint_wrapped_module.weight"}),
                     Tensor({"model", "module.b.weight"})}),
              ElementsAre("tensor a.weight", "tensor b.weight"));
  EXPECT_THAT(Lines({Tensor({"model", "_fsdp_wrapped_module.a.weight"}), Tensor({"model", "a.weight"})}),
              ElementsAre("`_fsdp_wrapped_module.a.weight` and `a.weight` are one name, `a.weight`, without what "
                          "wrappers added"));
  EXPECT_EQ(WithoutWrappers("x_orig_mod.a"), "x_orig_mod.a");
}

TEST(Roles, AnotherOptimizer) {
  EXPECT_THAT(Lines({Tensor({"model", "a"}), Tensor({"optimizer_0", "state", "a", "m"}),
                     Tensor({"optimizer_1", "state", "a", "m"})}),
              ElementsAre(HasSubstr("it has two optimizers, `optimizer_0` and `optimizer_1`")));
}

TEST(Roles, AnOptimizerOfNumbers) {
  EXPECT_THAT(Lines({Tensor({"model", "a.weight"}), Tensor({"optimizer", "state", "0", "exp_avg"})}),
              ElementsAre("tensor a.weight",
                          HasSubstr("`optimizer.state.0.exp_avg` of the optimizer does not name a parameter")));
}

TEST(Roles, OfNothing) { EXPECT_THAT(Lines({}), IsEmpty()); }

}  // namespace
}  // namespace ucp::dcp
