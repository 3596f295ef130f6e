// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// smallLimit is the kernel's default for nf_conntrack_max on a machine with little
// memory. Limit returns it until the module of connection tracking is loaded.
const smallLimit = 65536

const limitFile = "/proc/sys/net/netfilter/nf_conntrack_max"

// Limit returns the number of flows that the kernel can track; 0 means no limit.
func Limit() (uint32, error) {
	text, err := os.ReadFile(limitFile)
	if errors.Is(err, os.ErrNotExist) {
		return smallLimit, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read size of conntrack: %w", err)
	}
	size, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read size of conntrack in %s: %w", limitFile, err)
	}
	return uint32(size), nil
}
