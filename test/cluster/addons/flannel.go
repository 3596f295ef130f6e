// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// flannelNetwork is flannel's configuration. The lab's kernel may lack br_netfilter, without
// which flannel takes nftables only.
const flannelNetwork = `{"Network": "10.244.0.0/16", "EnableIPv6": true, "IPv6Network": "fd44::/48", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}`

// AssignPodRanges writes the pod ranges into a node, as a controller manager with
// --allocate-node-cidrs does.
func AssignPodRanges(ctx context.Context, api kubernetes.Interface, nodeName string, ranges []netip.Prefix) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": ranges[0], "podCIDRs": ranges}})
	if err != nil {
		return fmt.Errorf("encode the pod ranges of %s: %w", nodeName, err)
	}
	nodes := api.CoreV1().Nodes()
	_, err = nodes.Patch(ctx, nodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("assign pod ranges to %s: %w", nodeName, err)
	}
	return nil
}

func flannelSubnet(machine node.Machine) string { return machine.Path("flannel", "subnet.env") }

// Flannel writes flannel's configuration on a node, and returns the process to start there.
func Flannel(machine node.Machine, program, kubeconfig string) (process.Spec, error) {
	config := machine.Path("flannel", "net-conf.json")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		return process.Spec{}, fmt.Errorf("make flannel's folder: %w", err)
	}
	if err := os.WriteFile(config, []byte(flannelNetwork), 0o644); err != nil {
		return process.Spec{}, fmt.Errorf("write flannel's configuration: %w", err)
	}
	return process.Spec{
		Name: machine.Name + "/flannel",
		Args: []string{
			program,
			"--kubeconfig-file=" + kubeconfig,
			"--net-config-path=" + config,
			"--subnet-file=" + flannelSubnet(machine),
		},
		Env: append(node.Environment(), "NODE_NAME="+machine.Name),
		Log: machine.LogFile("flannel"), Cgroups: machine.Daemons,
	}, nil
}

// UseFlannel configures the plugin bridge by the file that flannel writes, as flannel's own plugin
// does. It fails until flannel has written the file.
func UseFlannel(machine node.Machine) error {
	text, err := os.ReadFile(flannelSubnet(machine))
	if err != nil {
		return err
	}
	ranges, mtu, err := readSubnet(string(text))
	if err != nil {
		return err
	}
	return InstallBridge(machine, "10-flannel.conflist", ranges, mtu)
}

// readSubnet reads the file that flannel writes for CNI plugins.
func readSubnet(text string) (ranges []netip.Prefix, mtu int, err error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	for _, key := range []string{"FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET"} {
		address, err := netip.ParsePrefix(values[key])
		if err != nil {
			return nil, 0, fmt.Errorf("read %s of flannel: %w", key, err)
		}
		ranges = append(ranges, address.Masked())
	}
	if mtu, err = strconv.Atoi(values["FLANNEL_MTU"]); err != nil {
		return nil, 0, fmt.Errorf("read FLANNEL_MTU of flannel: %w", err)
	}
	return ranges, mtu, nil
}
