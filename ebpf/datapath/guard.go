// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// guards returns the attachments that close a port of the node to processes of pods. Without such
// a port it returns none, and attachments of an earlier process are removed. Without a cgroup,
// pods have no processes: the guards follow when the cgroup is there.
func (l *links) guards(cfg programs.Config) ([]hooked, error) {
	if cfg.GuardedPort == 0 {
		return nil, l.unguard()
	}
	if _, err := os.Stat(cfg.PodCgroup); errors.Is(err, os.ErrNotExist) {
		l.log.Warn(
			"there is no cgroup of pods, so nothing to guard the port from",
			"cgroup",
			cfg.PodCgroup,
			"port",
			cfg.GuardedPort,
		)
		return nil, nil
	}
	return []hooked{
		l.onCgroup(hook.Guard4, cfg.PodCgroup, l.objects.AliothGuard4, ebpf.AttachCGroupInet4Connect),
		l.onCgroup(hook.Guard6, cfg.PodCgroup, l.objects.AliothGuard6, ebpf.AttachCGroupInet6Connect),
	}, nil
}

// unguard ends the links of guards.
func (l *links) unguard() error {
	for _, name := range hook.GuardLinks() {
		if _, err := detach(l.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Remove(l.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove pin of link %s: %w", name, err)
		}
	}
	return nil
}
