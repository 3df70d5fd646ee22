// How much a trial would have to hold, seen before anything is made of it.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/layout/layout.h"

namespace ucp {

// Every place takes some 50 bytes while a trial follows its element.
inline constexpr std::int64_t kMostHeldPlaces = 10'000'000;

// Returns the places of all ranks of the layout's mesh, copies and padding included, or a few more.
std::int64_t PlacesHeld(const Layout& layout);

// Returns why all ranks of the layout's mesh together, copies and padding included, have more places than a trial
// follows; empty if they have not.
std::string WhyTooLarge(const Layout& layout);

}  // namespace ucp
