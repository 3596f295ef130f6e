// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// retiredSelector keeps the daemons off every node: no node has this label.
const retiredSelector = "alioth.dev/uninstalled"

// users returns the pods, as sorted namespace/name, that have addresses or interfaces outside of
// VPCs, and still live. Addresses of a deleted pod do not prevent the uninstallation. Claims of a
// pod that another network has attached do not prevent it either.
func users(addresses []v1alpha1.Address, claims []v1alpha1.AttachmentClaim, pods []corev1.Pod) []string {
	living := map[string]*corev1.Pod{}
	for i := range pods {
		if phase := pods[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			living[string(pods[i].UID)] = &pods[i]
		}
	}
	var names []string
	held := map[string][]v1alpha1.AddressSpec{}
	for _, address := range addresses {
		if holder := address.Spec.Holder; holder.Kind == v1alpha1.HolderPod && living[holder.UID] != nil {
			held[holder.UID] = append(held[holder.UID], address.Spec)
		}
	}
	for uid, specs := range held {
		if !attachedElsewhere(living[uid], specs) {
			names = append(names, specs[0].Holder.Namespace+"/"+specs[0].Holder.Name)
		}
	}
	for _, claim := range claims {
		if living[claim.Spec.Pod.UID] != nil {
			names = append(names, claim.Namespace+"/"+claim.Spec.Pod.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// attachedElsewhere reports whether another network has attached a pod, which ran before the
// installation: the kubelet reports addresses of its eth0, and the operator has claimed none of
// them for that interface.
func attachedElsewhere(pod *corev1.Pod, held []v1alpha1.AddressSpec) bool {
	if len(pod.Status.PodIPs) == 0 {
		return false // it starts
	}
	for _, spec := range held {
		claimed, err := netip.ParseAddr(spec.IP)
		if err != nil || spec.Attachment != v1alpha1.PodAttachment || spec.Driver != "" {
			return false // the kubelet reports nothing about it, or another plugin asks Alioth for addresses
		}
		for _, reported := range pod.Status.PodIPs {
			if ip, err := netip.ParseAddr(reported.IP); err != nil || ip.Unmap() == claimed {
				return false
			}
		}
	}
	return true
}

// namesListed is how many names a message lists.
const namesListed = 8

// summarize lists some of the names, and the number of the others.
func summarize(names []string) string {
	if len(names) <= namesListed {
		return quote.Names(names)
	}
	return fmt.Sprintf("%s and %d more", quote.Names(names[:namesListed]), len(names)-namesListed)
}

// servedNodes returns the names of the nodes that the daemons are meant for.
func servedNodes(nodes []corev1.Node, set *appsv1.DaemonSet) []string {
	template := &set.Spec.Template.Spec
	meant := nmstate.PolicySpec{Selector: maps.Clone(template.NodeSelector), IgnoreTaints: true}
	delete(meant.Selector, retiredSelector)
	if template.Affinity != nil {
		meant.Affinity = nmstateapi.NodeAffinity(template.Affinity.NodeAffinity)
	}
	var names []string
	for _, node := range nodes {
		if applies, _ := policy.Applies(meant, policy.Node{Name: node.Name, Labels: node.Labels}); applies {
			names = append(names, node.Name)
		}
	}
	return names
}

// ownConditions returns the types of the conditions of a node that its daemon has written.
func ownConditions(node *corev1.Node) (own []corev1.NodeConditionType) {
	for _, c := range node.Status.Conditions {
		if v1alpha1.OfDaemon(string(c.Type), c.Reason) {
			own = append(own, c.Type)
		}
	}
	return own
}

// withoutConditions returns a strategic merge patch that removes conditions and keeps the others.
func withoutConditions(types []corev1.NodeConditionType) ([]byte, error) {
	var removed []map[string]string
	for _, t := range types {
		removed = append(removed, map[string]string{"$patch": "delete", "type": string(t)})
	}
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": removed}})
}

// cleanupPod runs the daemon's program on one node, with the subcommand that cleans up.
func cleanupPod(set *appsv1.DaemonSet, node string) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	spec := template.Spec
	spec.NodeName = node
	// The node is chosen, and nothing drives the clean-up away.
	spec.NodeSelector, spec.Affinity = nil, nil
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	spec.RestartPolicy = corev1.RestartPolicyNever
	// It looks on the node whether each boot needs the network states, although the daemon may no
	// longer handle them.
	spec.HostPID = true
	spec.InitContainers = nil
	spec.Containers = spec.Containers[:1]
	container := &spec.Containers[0]
	container.Name = componentCleanup
	container.Args = append([]string{"uninstall"}, container.Args...)
	container.StartupProbe, container.LivenessProbe, container.ReadinessProbe = nil, nil, nil
	// The pod's status then has the error.
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	labels := map[string]string{}
	for key, value := range template.Labels {
		labels[key] = value
	}
	labels[componentLabel] = componentCleanup
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, GenerateName: "alioth-cleanup-", Labels: labels},
		Spec:       spec,
	}
}

// outcome splits cleanup pods by their result. failures have the causes.
func outcome(pods []corev1.Pod) (pending, failures []string) {
	for _, pod := range pods {
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
		case corev1.PodFailed:
			failures = append(failures, "node "+pod.Spec.NodeName+": "+lastWords(pod))
		default:
			pending = append(pending, "node "+pod.Spec.NodeName+" (delete its Node object if it is permanently lost)")
		}
	}
	slices.Sort(pending)
	slices.Sort(failures)
	return pending, failures
}

// lastWords returns the message that a failed pod left.
func lastWords(pod corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.Message != "" {
			return strings.TrimSpace(ended.Message)
		}
	}
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	return "failed without a message"
}
