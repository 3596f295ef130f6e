// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree makes a file system of devices: of each path a folder, behind "->" a link to
// another one, behind "=" the content of a file.
func tree(t *testing.T, lines ...string) sysfs {
	t.Helper()
	root := t.TempDir()
	for _, line := range lines {
		path, to, isLink := strings.Cut(line, "->")
		path, text, isFile := strings.Cut(path, "=")
		path = filepath.Join(root, "bus/pci/devices", path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(to, path)
		case isFile:
			err = os.WriteFile(path, []byte(text+"\n"), 0o644)
		default:
			err = os.MkdirAll(path, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return sysfs(root)
}

const pfAddress, vfAddress = "0000:03:00.0", "0000:03:10.2"

// adapter returns the lines of a physical function with two virtual ones.
func adapter(more ...string) []string {
	return append([]string{
		pfAddress + "/net/ens1",
		pfAddress + "/virtfn0->../0000:03:10.0", pfAddress + "/virtfn1->../" + vfAddress,
		vfAddress + "/physfn->../" + pfAddress,
	}, more...)
}

func TestVirtualFunction_PCIAddress_Found(t *testing.T) {
	for _, tc := range []struct {
		name      string
		lines     []string
		want      function
		userspace bool
	}{
		{
			"with a network device", adapter(vfAddress+"/driver->../../../bus/pci/drivers/igbvf", vfAddress+"/net/ens1v1"),
			function{PCI: vfAddress, PF: pfAddress, PFName: "ens1", Index: 1, Driver: "igbvf", Name: "ens1v1"},
			false,
		},
		{
			"with its network device elsewhere", adapter(vfAddress + "/driver->../../../bus/pci/drivers/igbvf"),
			function{PCI: vfAddress, PF: pfAddress, PFName: "ens1", Index: 1, Driver: "igbvf"},
			false,
		},
		{
			"for a program", adapter(vfAddress + "/driver->../../../bus/pci/drivers/vfio-pci"),
			function{PCI: vfAddress, PF: pfAddress, PFName: "ens1", Index: 1, Driver: "vfio-pci"},
			true,
		},
		{"without a driver", adapter(), function{PCI: vfAddress, PF: pfAddress, PFName: "ens1", Index: 1}, true},
		{
			"of a switch", adapter(
				pfAddress+"/net/ens1/phys_port_name=p0", pfAddress+"/net/eth7/phys_port_name=pf0vf1", pfAddress+"/net/eth8/phys_port_name=c1pf0sf3",
				vfAddress+"/driver->../x/mlx5_core", vfAddress+"/net/ens1v1"),
			function{PCI: vfAddress, PF: pfAddress, PFName: "ens1", Index: 1, Driver: "mlx5_core", Name: "ens1v1"},
			false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tree(t, tc.lines...).function(vfAddress)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" || got.userspace() != tc.userspace {
				t.Errorf("%v, of a program: %v (-want +got):\n%s", err, got.userspace(), diff)
			}
		})
	}
}

func TestSRIOV_UnusableDevice_Explained(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
		want  error
		says  string
	}{
		{"none", []string{pfAddress + "/net/ens1"}, errNoDevice, "0000:03:10.2"},
		{"a physical function", []string{vfAddress + "/net/ens1"}, errNoVF, "correct the device plugin's selection"},
		{"one without a number", []string{vfAddress + "/physfn->../" + pfAddress, pfAddress + "/net/ens1", pfAddress + "/virtfn0->../0000:03:10.0"}, nil, "has no number for it"},
		{"one without its adapter", []string{vfAddress + "/physfn->../" + pfAddress, pfAddress + "/virtfn0->../" + vfAddress}, nil, "has the network devices []"},
		{"an adapter with two", adapter(pfAddress + "/net/ens2"), nil, "[ens1 ens2]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tree(t, tc.lines...).function(vfAddress)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.says)
			}
		})
	}
}
