// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// setOffload turns the segmentation offloads of every underlay device on or off: of the nodes, of
// the reference hosts, and of the switch's ports. The latter decide whether a node merges received
// frames: a veth does so only for frames that its peer could not have sent merged.
func (b *Bench) setOffload(ctx context.Context, refs *references, setting string) error {
	for _, node := range b.lab.Nodes() {
		if _, err := b.lab.NodeExec(ctx, node.Name, b.tool, "offload", setting); err != nil {
			return fmt.Errorf("turn offloads %s: %w", setting, err)
		}
	}
	for _, host := range refs.hosts {
		if _, err := host.Exec(ctx, b.tool, "offload", setting); err != nil {
			return fmt.Errorf("turn offloads %s: %w", setting, err)
		}
	}
	name := b.lab.Topology().Switch()
	ports, err := devices(ctx, name)
	if err != nil {
		return err
	}
	onSwitch := refs.In(underlay.NetNSPath(name))
	for _, port := range ports {
		if _, err := onSwitch(ctx, "offload", setting, "--device", port); err != nil {
			return fmt.Errorf("turn offloads of the switch's port %s %s: %w", port, setting, err)
		}
	}
	return nil
}

// devices lists the veths of a named network namespace.
func devices(ctx context.Context, ns string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ip", "-n", ns, "-json", "link", "show", "type", "veth").Output()
	if err != nil {
		return nil, fmt.Errorf("list devices of %s: %w", ns, err)
	}
	var links []struct{ Ifname string }
	if err := json.Unmarshal(out, &links); err != nil {
		return nil, fmt.Errorf("list devices of %s: %w", ns, err)
	}
	var names []string
	for _, link := range links {
		names = append(names, link.Ifname)
	}
	return names, nil
}
