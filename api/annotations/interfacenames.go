// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"fmt"
	"slices"
	"strconv"
)

const (
	// FirstInterface is the name of interface 0 of every pod: the kubelet expects it.
	FirstInterface = "eth0"

	defaultPrefix = "eth"
)

// InterfaceNames returns the names of a pod's interfaces from the container_prefix of
// their networks, in the order of the pod's list (DANM user guide, "Naming container
// interfaces"). The first is always eth0. Another is its prefix, "eth" by default, and
// its index. In the legacy scheme it is exactly the prefix, and only without one "eth"
// and its index. Names that are equal, reserved, longer than 15 characters or not safe
// are errors.
func InterfaceNames(prefixes []string, legacy bool) ([]string, error) {
	var names []string
	for i, prefix := range prefixes {
		name := nameAt(i, prefix, legacy)
		if err := checkInterfaceName(name); err != nil {
			return nil, fmt.Errorf("interface %d, container_prefix: %w", i, err)
		}
		if first := slices.Index(names, name); first >= 0 {
			return nil, fmt.Errorf(
				"interfaces %d and %d would both have the name %s: change the container_prefix of a network, or the order of the list",
				first,
				i,
				name,
			)
		}
		names = append(names, name)
	}
	return names, nil
}

func nameAt(i int, prefix string, legacy bool) string {
	switch {
	case i == 0:
		return FirstInterface
	case prefix == "":
		return defaultPrefix + strconv.Itoa(i)
	case legacy:
		return prefix
	}
	return prefix + strconv.Itoa(i)
}
