// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package spaces_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/spaces"
)

// TestSpaces_StackedInterfacesInOtherNamespaces_Found: in a namespace that is mounted, and in one that a process
// has. An end of a pair, and an interface on one of another namespace, are not meant.
func TestSpaces_StackedInterfacesInOtherNamespaces_Found(t *testing.T) {
	host, mounted := testnet.New(t), testnet.New(t)
	testnet.In(t, host, func() error {
		process := exec.Command("sleep", "3600")
		process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if err := process.Start(); err != nil {
			return err
		}
		t.Cleanup(func() { _ = errors.Join(process.Process.Kill(), process.Wait()) })
		return run(
			t.Context(), "ip link add eth1 index 70 type veth peer name eth2", "ip link add link eth1 name here type macvlan mode bridge",
			"ip link add link eth1 name pod type macvlan mode bridge", "ip link set pod netns "+mounted.Path(),
			fmt.Sprintf("ip link add link eth1 name eth1.7 netns %d type macvlan mode bridge", process.Process.Pid),
			"ip link add vx0 type vxlan id 7 remote 192.0.2.9 dstport 4789 dev eth1", "ip link set vx0 netns "+mounted.Path(),
			"ip link set eth2 netns "+mounted.Path(),
		)
	})
	testnet.In(t, mounted, func() error {
		return run(t.Context(), "ip link add eth1 index 70 type bridge", "ip link add link eth1 name own type macvlan")
	})
	testnet.In(t, host, func() error {
		own, err := ns.GetCurrentNS()
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		above, err := spaces.Above(t.Context(), own)
		if diff := cmp.Diff(map[uint32][]string{70: {"eth1.7", "pod", "vx0"}}, above); diff != "" {
			t.Error(diff)
		}
		return err
	})
}

func run(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}
