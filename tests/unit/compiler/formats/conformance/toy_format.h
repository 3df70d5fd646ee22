// A format for this suite alone: the weights of a model in `toy.data`, one tensor behind the other, and in `toy.txt`
// the tag and then a line for each, "float32 0 2 50 33 NAME": the dtype, where in the data it begins, and its shape
// behind the number of its dimensions.
#pragma once

#include <memory>

#include "compiler/formats/format.h"

namespace ucp {

std::unique_ptr<const Format> MakeToyFormat();

}  // namespace ucp
