// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"

	"github.com/alioth-net/alioth/store/client/descriptor"
)

// all are the kinds of the area: each adds itself where it is defined.
var all descriptor.Set

// All lists the kinds of the area.
func All() []*descriptor.Kind { return slices.Clone(all) }
