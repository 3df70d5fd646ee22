// The families of models that one spec serves: its facts, and what it asks the header, both ways.
#pragma once

#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/trial/small_meshes.h"

namespace ucp {

// More than this many ways to set all facts are not all tried: then each alternative of each fact is, beside random
// ones of the others.
inline constexpr std::size_t kMostFamilies = 16;

// And more facts than this are not set at all: every way to set them holds them all.
inline constexpr std::size_t kMostFacts = 1'000;

// `given`, together with every way to set the facts that it leaves open and whose kind shows in how the spec uses them:
// true and false; each text that a fact is compared with, and another; lists of these. At least one; none, and `why`,
// where the facts are too many.
std::vector<Settings> FamiliesOf(const CheckedSpec& spec, const Settings& given, Random& random, std::string& why);

}  // namespace ucp
