// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// del has the plugin detach a container, as a runtime does for a pod of this name and UID.
func (l *lab) del(t *testing.T, node, container, netns string, pod *corev1.Pod) {
	t.Helper()
	environment := []string{
		"CNI_COMMAND=DEL", "CNI_CONTAINERID=" + container, "CNI_NETNS=" + netns, "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin",
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + pod.Namespace + ";K8S_POD_NAME=" + pod.Name + ";K8S_POD_UID=" + string(pod.UID),
	}
	config := `{"cniVersion":"1.0.0","name":"alioth","type":"alioth"}`
	l.OnNode(t, node, "sh", "-c", "echo '"+config+"' | env '"+strings.Join(environment, "' '")+"' /opt/cni/bin/alioth")
}

var _ = kept(Report{
	Name: "del-of-an-unknown-container", Source: "k8snetworkplumbingwg/multus-cni#586", Kind: restarts,
	Input: "The runtime has DEL done for a container that the plugin has never seen, twice, with a namespace that is gone and without one.",
	Want:  "DEL succeeds, so that no sandbox stays for ever.",
	Run: func(t *testing.T, l *lab) {
		_, second := l.Nodes()
		pod := scene.Pod(l.tenant.Namespace.Name, "never-seen")
		pod.UID = "6a1ff8a5-0b2d-4c7e-9f10-0d9f5c1b7a42"
		for _, netns := range []string{"", "/run/netns/cni-is-gone", ""} {
			l.del(t, second, stage.Unique("never-seen"), netns, pod)
			l.del(t, second, "never-seen", netns, pod)
		}
	},
})
