#include "compiler/formats/pytorch/pickle/pickle_writer.h"

#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

// The strongest truth there is: what torch.save wrote comes out again, byte for byte.
TEST(PickleWriter, WritesWhatTorchWrote) {
  for (const std::string_view name :
       {"dtypes.pt", "views.pt", "parameters.pt", "objects.pt", "deepspeed.pt", "random.pt"}) {
    EXPECT_EQ(WritePickle(*SampleArchive(name).root()), SamplePickle(name)) << name;
  }
}

TEST(PickleWriter, WhatWasWrittenIsReadAsTheSame) {
  for (const std::string_view name : {"plain2.pkl", "plain3.pkl", "plain4.pkl", "plain5.pkl"}) {
    auto pickle = ReadPickle(Sample(name));
    ASSERT_TRUE(static_cast<bool>(pickle));
    EXPECT_EQ(PickleResult(WritePickle(*pickle->root)), Print(*pickle->root)) << name;
  }
}

TEST(PickleWriter, WritesLongListsInGroups) {
  std::vector<ValuePtr> items;
  std::vector<Entry> entries;
  for (int i = 0; i < 2001; ++i) {
    items.push_back(MakeInteger(i - 1000));
    entries.push_back({MakeText(std::to_string(i)), MakeDouble(i)});
  }
  const ValuePtr tree = MakeTuple({MakeList(items), MakeDict(entries), MakeOrderedDict(entries), MakeList({})});
  EXPECT_EQ(PickleResult(WritePickle(*tree)), Print(*tree));
}

TEST(PickleWriter, WritesEveryIntegerWithTheFewestBytes) {
  for (int shift = 0; shift < 63; ++shift) {
    for (const std::int64_t base : {std::int64_t{1} << shift, -(std::int64_t{1} << shift)}) {
      for (const std::int64_t value : {base - 1, base, base + 1}) {
        EXPECT_EQ(PickleResult(WritePickle(*MakeInteger(value))), std::to_string(value));
      }
    }
  }
  // As CPython's pickletools show: 2**31 is LONG1 with 5 bytes, -2**31 still BININT.
  EXPECT_EQ(WritePickle(*MakeInteger(std::int64_t{1} << 31)), std::string("\x80\x02\x8a\x05\x00\x00\x00\x80\x00.", 10));
  EXPECT_EQ(WritePickle(*MakeInteger(INT32_MIN)), std::string("\x80\x02J\x00\x00\x00\x80.", 8));
}

TEST(PickleWriter, AListThatStandsTwiceIsWrittenOnce) {
  const ValuePtr list = MakeList({MakeBytes("a\xff")});
  EXPECT_EQ(PickleResult(WritePickle(*MakeTuple({list, list, MakeList({MakeBytes("a\xff")})}))),
            "(&1 [bytes(61ff)], *1, [bytes(61ff)])");
}

// data.pkl of torch.save(torch.zeros(4, 3)) as PyTorch writes it.
TEST(PickleWriter, ANewTensorIsWrittenAsTorchWritesIt) {
  using std::string_literals::operator""s;
  EXPECT_EQ(WritePickle(*MakeWholeTensor("0", DType::kFloat32, {4, 3})),
            "\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01"
            "ctorch\nFloatStorage\nq\x02X\x01\x00\x00\x00"
            "0q\x03X\x03\x00\x00\x00"
            "cpuq\x04K\x0ctq\x05QK\x00K\x04K\x03\x86"
            "q\x06K\x03K\x01\x86q\x07\x89"
            "ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b."s);
}

}  // namespace
}  // namespace ucp::pytorch
