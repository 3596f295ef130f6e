// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/e2e/stage"
)

// The other tests rely on the features that this one requires.
func TestMachine_KernelAndAdapter_AsRequired(t *testing.T) {
	e := start(t)
	node, err := e.Lab.Client().CoreV1().Nodes().Get(stage.Within(t, stage.Patience), e.guest(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kernel := e.onGuest(t, "uname -r"); node.Status.NodeInfo.KernelVersion != kernel || !strings.HasPrefix(kernel, "6.12.") {
		t.Errorf("the kubelet runs on Linux %s, the commands on %s, want 6.12 for both", node.Status.NodeInfo.KernelVersion, kernel)
	}
	if driver := e.onGuest(t, "basename $(readlink /sys/class/net/"+device+"/device/driver)"); driver != "igb" {
		t.Errorf("%s has the driver %s, want igb", device, driver)
	}
	for _, address := range e.functions(t, 2) {
		if driver := e.onGuest(t, "basename $(readlink /sys/bus/pci/devices/"+address+"/driver)"); driver != "igbvf" {
			t.Errorf("the virtual function %s has the driver %s, want igbvf", address, driver)
		}
	}
	for _, kind := range []string{"ipvlan mode l2", "vlan id 7"} {
		e.onGuest(t, "ip link add link "+device+" name probe0 type "+kind+"; ip link del probe0")
	}
}
