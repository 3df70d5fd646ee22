// The families of models that one spec serves: its facts, and what it asks the header, both ways.
#pragma once

#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/trial/small_meshes.h"

namespace ucp {

// More than this many ways to set all facts are not all tried: then each alternative of each fact is, beside random
// ones of the others.
inline constexpr std::size_t kMostFamilies = 16;

// `given`, together with every way to set the facts that it leaves open and whose kind shows in how the spec uses them:
// true and false; each text that a fact is compared with, and another; lists of these. At least one.
std::vector<Settings> FamiliesOf(const CheckedSpec& spec, const Settings& given, Random& random);

}  // namespace ucp
