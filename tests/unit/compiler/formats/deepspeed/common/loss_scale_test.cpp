#include "compiler/formats/deepspeed/common/loss_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

// As FP16_Optimizer saves them.
std::vector<Entry> Numbers() {
  return {{MakeText("dynamic_loss_scale"), MakeBool(true)}, {MakeText("cur_scale"), MakeInteger(256)},
          {MakeText("cur_iter"), MakeInteger(9)},           {MakeText("last_overflow_iter"), MakeInteger(4)},
          {MakeText("scale_factor"), MakeDouble(2)},        {MakeText("scale_window"), MakeInteger(500)}};
}

ValuePtr Config(std::vector<Entry> half) { return MakeDict({{MakeText("fp16"), MakeDict(std::move(half))}}); }

std::string Print(std::vector<Entry> entries) { return pytorch::Print(*MakeDict(std::move(entries))); }

std::string PrintAttribute(const pytorch::Value& scaler, const char* name) {
  ValuePtr value = pytorch::Find(scaler, name);
  return value ? pytorch::Print(*value) : "missing";
}

TEST(LossScale, NumbersBecomeTheObject) {
  std::vector<Entry> optimizer = Numbers();
  optimizer.push_back({MakeText("clip_grad"), MakeDouble(1.5)});
  GatherLossScale(Config({{MakeText("hysteresis"), MakeInteger(3)}, {MakeText("min_loss_scale"), MakeInteger(8)}}),
                  optimizer);
  ASSERT_EQ(optimizer.size(), 3u);
  EXPECT_EQ(pytorch::AsText(*optimizer[0].key), "loss_scaler");
  const pytorch::Value& scaler = *optimizer[0].value;
  EXPECT_TRUE(IsDynamicLossScaler(scaler));
  EXPECT_EQ(pytorch::ClassName(scaler), "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler");
  for (const auto& [name, value] : std::map<const char*, const char*>{{"cur_scale", "256"},
                                                                      {"cur_iter", "9"},
                                                                      {"last_overflow_iter", "4"},
                                                                      {"scale_window", "500"},
                                                                      {"min_scale", "8"},
                                                                      {"delayed_shift", "3"},
                                                                      {"cur_hysteresis", "3"}}) {
    EXPECT_EQ(PrintAttribute(scaler, name), value) << name;
  }
  EXPECT_EQ(Print({optimizer[1], optimizer[2]}),
            Print({{MakeText("dynamic_loss_scale"), MakeBool(true)}, {MakeText("clip_grad"), MakeDouble(1.5)}}));
}

TEST(LossScale, ThereAndBackIsTheSame) {
  std::vector<Entry> optimizer = Numbers();
  GatherLossScale(nullptr, optimizer);
  EXPECT_EQ(Print(LossScaleNumbers(*optimizer[0].value, MakeInteger(77))), Print(Numbers()));
}

TEST(LossScale, OneThatNeverChangesCountsTheSteps) {
  std::vector<Entry> optimizer = {{MakeText("dynamic_loss_scale"), MakeBool(false)},
                                  {MakeText("cur_scale"), MakeDouble(128)},
                                  {MakeText("cur_iter"), MakeInteger(4)}};
  const std::string before = Print(optimizer);
  GatherLossScale(nullptr, optimizer);
  EXPECT_FALSE(IsDynamicLossScaler(*optimizer[0].value));
  EXPECT_EQ(PrintAttribute(*optimizer[0].value, "cur_scale"), "128.0");
  EXPECT_EQ(Print(LossScaleNumbers(*optimizer[0].value, MakeInteger(4))), before);
}

TEST(LossScale, NothingIsMadeOfNothing) {
  std::vector<Entry> none = {{MakeText("clip_grad"), MakeDouble(1)}};
  std::vector<Entry> broken = Numbers();
  broken.pop_back();
  for (std::vector<Entry> optimizer : {none, broken}) {
    const std::string before = Print(optimizer);
    GatherLossScale(nullptr, optimizer);
    EXPECT_EQ(Print(optimizer), before);
  }
}

TEST(LossScale, BeginsAsTheConfigurationSays) {
  ValuePtr dynamic = InitialLossScaler(Config({{MakeText("initial_scale_power"), MakeInteger(6)}}));
  EXPECT_TRUE(IsDynamicLossScaler(*dynamic));
  EXPECT_EQ(PrintAttribute(*dynamic, "cur_scale"), "64");
  EXPECT_EQ(PrintAttribute(*InitialLossScaler(nullptr), "cur_scale"), "65536");
  EXPECT_EQ(PrintAttribute(*InitialLossScaler(nullptr), "last_overflow_iter"), "-1");
  ValuePtr constant = InitialLossScaler(Config({{MakeText("loss_scale"), MakeInteger(32)}}));
  EXPECT_FALSE(IsDynamicLossScaler(*constant));
  EXPECT_EQ(PrintAttribute(*constant, "cur_scale"), "32.0");
}

TEST(LossScale, IsToldByItsKind) {
  auto told = [](const char* key, double value) {
    return LossScaleText(
        *InitialLossScaler(MakeDict({{MakeText("fp16"), MakeDict({{MakeText(key), MakeDouble(value)}})}})));
  };
  EXPECT_EQ(told("loss_scale", 128), "static and 128");
  EXPECT_EQ(told("loss_scale", 0), "dynamic");
  EXPECT_EQ(told("initial_scale_power", 8), "dynamic");
}

}  // namespace
}  // namespace ucp::deepspeed
