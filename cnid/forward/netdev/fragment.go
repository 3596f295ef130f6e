// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"slices"

	"github.com/safchain/ethtool"
)

// fragmentMTU is the MTU of the pair for fragmentation, in bytes: the maximum. The
// datapath checks whether a packet fits two fragments.
const fragmentMTU = 65535

// offloads are tasks that a device leaves to the next device, by the kernel's names.
// Without them a packet leaves as one segment with its checksum.
var offloads = []string{
	"tx-checksum-ip-generic", "tx-checksum-sctp", "tx-tcp-segmentation", "tx-tcp6-segmentation",
	"tx-udp-segmentation", "tx-sctp-segmentation",
}

// withoutOffloads turns them off.
func (h *Host) withoutOffloads(device string) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool socket: %w", err)
	}
	defer tool.Close()
	now, err := tool.Features(device)
	if err != nil {
		return fmt.Errorf("read offloads of %s: %w", device, err)
	}
	if !slices.ContainsFunc(offloads, func(name string) bool { return now[name] }) {
		return nil
	}
	off := map[string]bool{}
	for _, name := range offloads {
		off[name] = false
	}
	if err := tool.Change(device, off); err != nil {
		return fmt.Errorf("turn off offloads of %s: %w", device, err)
	}
	h.note(RepairDevice, "offloads of %s", device)
	return nil
}
