// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

// Indexes returns the indexes of an image's devices by their names.
func (i *Image) Indexes() map[string]uint32 {
	indexes := map[string]uint32{}
	list, _ := linksOf(i)
	for _, l := range list {
		indexes[l.name] = l.index
	}
	return indexes
}
