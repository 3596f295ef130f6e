// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// NetworkIDs returns the NetworkIDs that OfNetworkID may find a file for, in order. all is false
// if the directory has more files than the function reads.
func (d ConfDir) NetworkIDs() (ids []string, all bool, err error) {
	dir, err := d.open()
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("list CNI configurations in %s: %w", d.Path, err)
	}
	for _, name := range names {
		id, found := strings.CutSuffix(name, ".conflist")
		if !found {
			id, found = strings.CutSuffix(name, ".conf")
		}
		if found && networkID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), len(names) < maxFiles, nil
}
