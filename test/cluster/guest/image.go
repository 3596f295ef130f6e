// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/vm/debian"
	"github.com/alioth-net/alioth/test/vm/equipment"
	"github.com/alioth-net/alioth/test/vm/initramfs"
)

// Programs are the programs of a machine's file system beyond the ones that every machine has.
type Programs struct {
	// Init is the binary of ./test/cluster/guest/init.
	Init string
	// Files maps places to files of the host.
	Files map[string]string
}

// tools are programs of the host that nodes and tests run. busybox stands for all others.
func tools() []string {
	return []string{"bridge", "busybox", "dnsmasq", "ip", "mount", "nft", "nsenter", "runc", "sysctl", "umount"}
}

// modules returns the modules of the kernel that a node has beyond the modules of equipment: its
// file systems, and its network adapter.
func modules() []string {
	return append(append(equipment.Modules(), equipment.HardwareModules()...),
		"overlay", "9p", "9pnet_virtio", "virtio_net", "virtio_pci", "virtio_rng", "br_netfilter")
}

// WriteImage writes the file system of the machine that a plan describes, whose modules
// it fills in.
func WriteImage(ctx context.Context, file string, kernel debian.Kernel, plan Plan, programs Programs) (err error) {
	found, err := kernel.Files(modules())
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the file system of %s: %w", plan.Name(), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := initramfs.NewWriter(f)
	for _, module := range found {
		place := filepath.Join(ModulesDir, filepath.Base(module))
		plan.Modules = append(plan.Modules, place)
		if err := w.File(place, module); err != nil {
			return err
		}
	}
	for place, from := range programs.Files {
		if err := w.File(place, from); err != nil {
			return err
		}
	}
	for _, tool := range tools() {
		if err := w.Program(ctx, tool); err != nil {
			return err
		}
	}
	if err := addBasics(w, plan, programs); err != nil {
		return err
	}
	return w.Close()
}

// addBasics adds the programs that init needs, and the files that programs look for on any machine.
func addBasics(w *initramfs.Writer, plan Plan, programs Programs) error {
	raw, err := json.Marshal(plan)
	if err != nil {
		return fmt.Errorf("write the plan of %s: %w", plan.Name(), err)
	}
	return errors.Join(
		w.File("/init", programs.Init),
		w.Bytes(PlanFile, raw),
		w.Bytes("/etc/machine-id", node.MachineID(plan.Name())),
		w.Bytes("/etc/hostname", []byte(plan.Name()+"\n")),
		w.Bytes("/etc/hosts", []byte("127.0.0.1 localhost\n::1 localhost\n")),
		w.Bytes("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n")),
		w.Bytes("/etc/group", []byte("root:x:0:\n")),
		w.Bytes("/etc/os-release", []byte("ID=alioth-lab\nPRETTY_NAME=\"Alioth's lab, a virtual machine\"\n")),
	)
}
