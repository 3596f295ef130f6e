// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// pluginFolder is the kubelet's folder of device plugins.
const pluginFolder = "/var/lib/kubelet/device-plugins"

// offerDevices runs the device plugin on the virtual machine for the time of a test. pools
// are addresses on the PCI bus by the name of their resource.
func (e *env) offerDevices(t *testing.T, pools map[string][]string) {
	t.Helper()
	program := filepath.Join(filepath.Dir(e.Tool), "deviceplugin")
	if err := build.Go(stage.Within(t, stage.Patience), root, "the device plugin", nil, "-o", program, "./test/deviceplugin"); err != nil {
		t.Fatal(err)
	}
	pod := scene.Pod(metav1.NamespaceSystem, stage.Unique("device-plugin"), scene.OnNode(e.guest()))
	pod.Spec.HostNetwork = true // Alioth has nothing to do for it
	volume := func(name, path string) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	volume("program", filepath.Dir(program))
	volume("plugins", pluginFolder)
	image := pod.Spec.Containers[0].Image
	pod.Spec.Containers = nil
	for pool, addresses := range pools {
		_, name, _ := strings.Cut(pool, "/")
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: image, ImagePullPolicy: corev1.PullNever,
			Command:      append([]string{"/program/" + filepath.Base(program), "--resource", pool}, addresses...),
			VolumeMounts: []corev1.VolumeMount{{Name: "program", MountPath: "/program", ReadOnly: true}, {Name: "plugins", MountPath: pluginFolder}},
		})
	}
	e.Make(t, pod)
}

// requesting has the pod request n devices of a pool.
func requesting(pool string, n int64) scene.PodOption {
	return func(pod *corev1.Pod) {
		resources := &pod.Spec.Containers[0].Resources
		if resources.Limits == nil {
			resources.Limits = corev1.ResourceList{}
		}
		resources.Limits[corev1.ResourceName(pool)] = *resource.NewQuantity(n, resource.DecimalSI)
		resources.Requests = resources.Limits
	}
}

// functions gives the adapter of the virtual machine virtual functions for the time of a test. The
// test must not run beside another one that does the same. functions returns their PCI addresses
// once each has its network device.
func (e *env) functions(t *testing.T, n int) []string {
	t.Helper()
	adapter := "/sys/class/net/" + device + "/device"
	t.Cleanup(func() { e.onGuest(t, "echo 0 > "+adapter+"/sriov_numvfs") })
	out := e.onGuest(t, fmt.Sprintf("echo %d > %s/sriov_numvfs; for f in %s/virtfn*; do basename $(readlink $f); done", n, adapter, adapter))
	addresses := strings.Fields(out)
	if len(addresses) != n {
		t.Fatalf("the adapter has the functions %q, want %d", addresses, n)
	}
	for _, address := range addresses {
		e.awaitOnGuest(t, "the network device of "+address, "ls /sys/bus/pci/devices/"+address+"/net")
	}
	return addresses
}

// bind gives a virtual function another driver. It goes with the function.
func (e *env) bind(t *testing.T, address, driver string) {
	t.Helper()
	at := "/sys/bus/pci/devices/" + address
	e.onGuest(t, fmt.Sprintf("echo %s > %s/driver_override; echo %s > %s/driver/unbind; echo %s > /sys/bus/pci/drivers_probe", driver, at, address, at, address))
	e.awaitOnGuest(t, address+" has the driver "+driver, fmt.Sprintf("basename $(readlink %s/driver) | grep -x %s", at, driver))
}

// function is the state of a virtual function on its node, while no pod has it.
type function struct {
	// Settings are the adapter's settings for it, without the number.
	Settings map[string]any
	// Device is its network device, zero without one.
	Device networkDevice
}

// networkDevice is a part of the output of `ip -json link show`.
type networkDevice struct {
	IfName   string           `json:"ifname"`
	AltNames []string         `json:"altnames"`
	Flags    []string         `json:"flags"`
	MTU      int              `json:"mtu"`
	Address  string           `json:"address"`
	Parent   string           `json:"parentdev"`
	VFs      []map[string]any `json:"vfinfo_list"`
}

// devicesOf reads the network devices that a command of iproute2 lists.
func devicesOf(t *testing.T, out string) (list []networkDevice) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("read the devices: %v: %s", err, out)
	}
	return list
}

// stateOf returns the state of the virtual function with a number.
func (e *env) stateOf(t *testing.T, number int, address string) function {
	t.Helper()
	f := function{Settings: e.settingsOf(t, number)}
	for _, d := range devicesOf(t, e.OnNode(t, e.guest(), "ip", "-j", "-d", "link", "show")) {
		if d.Parent == address {
			// The kernel sets the flags of the carrier later than UP.
			d.Flags = slices.DeleteFunc(d.Flags, func(flag string) bool { return flag != "UP" })
			f.Device = d
		}
	}
	return f
}

// settingsOf returns the adapter's settings for the virtual function with a number.
func (e *env) settingsOf(t *testing.T, number int) map[string]any {
	t.Helper()
	for _, vf := range devicesOf(t, e.OnNode(t, e.guest(), "ip", "-j", "-d", "link", "show", "dev", device))[0].VFs {
		if vf["vf"] == float64(number) {
			return vf
		}
	}
	t.Fatalf("the adapter has no function %d", number)
	return nil
}

// awaitOnGuest waits until a shell's line succeeds on the virtual machine.
func (e *env) awaitOnGuest(t *testing.T, what, line string) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), what, func(ctx context.Context) (bool, string, error) {
		out, err := e.Lab.NodeExec(ctx, e.guest(), "sh", "-ec", realIP+line)
		return err == nil, fmt.Sprint(out, err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// installPlugins puts reference plugins into the runtime's folder of the virtual machine.
func (e *env) installPlugins(t *testing.T, plugins ...string) {
	t.Helper()
	for _, plugin := range plugins {
		program, err := os.ReadFile("/usr/lib/cni/" + plugin)
		if err != nil {
			t.Fatalf("read a reference plugin (make setup installs it): %v", err)
		}
		shared := filepath.Join(filepath.Dir(e.Tool), plugin)
		if err := os.WriteFile(shared, program, 0o755); err != nil {
			t.Fatal(err)
		}
		e.OnNode(t, e.guest(), "cp", shared, "/opt/cni/bin/"+plugin)
	}
}
