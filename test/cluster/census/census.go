// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package census lists the objects and files of a cluster and its nodes, so that tests can compare
// a cluster before an installation with the cluster after its removal. It lists everything that a
// request finds, and not the things that a test expects: so it finds remainders that nobody has
// thought of.
package census

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// passing are the kinds whose objects come and go in any cluster.
var passing = []string{
	"events", "pods", "replicasets", "endpointslices", "endpoints", "leases", "controllerrevisions", "ipaddresses", "componentstatuses",
	"certificatesigningrequests",
}

// Objects returns a line for each object of the cluster: its kind, namespace and name, its
// finalizers, the keys of its labels and annotations and, of a Node, its taints and the types
// of its conditions.
func Objects(ctx context.Context, config *rest.Config) ([]string, error) {
	kinds, err := listable(config)
	if err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	var lines []string
	for _, kind := range kinds {
		list, err := api.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			lines = append(lines, lineOf(kind, &list.Items[i]))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

func listable(config *rest.Config) (kinds []schema.GroupVersionResource, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("list the kinds of the API: %w", err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && !slices.Contains(passing, resource.Name) {
				kinds = append(kinds, version.WithResource(resource.Name))
			}
		}
	}
	return kinds, nil
}

func lineOf(kind schema.GroupVersionResource, object *unstructured.Unstructured) string {
	line := fmt.Sprintf("%s/%s %s/%s", kind.Group, kind.Resource, object.GetNamespace(), object.GetName())
	for what, keys := range map[string][]string{
		"finalizers": object.GetFinalizers(), "labels": keysOf(object.GetLabels()), "annotations": keysOf(object.GetAnnotations()), "state": stateOf(object),
	} {
		slices.Sort(keys)
		if len(keys) > 0 {
			line += fmt.Sprintf(" %s=%s", what, strings.Join(keys, ","))
		}
	}
	return inOrder(line)
}

// inOrder sorts the words of a line.
func inOrder(line string) string {
	words := strings.Fields(line)
	slices.Sort(words[2:])
	return strings.Join(words, " ")
}

func keysOf(all map[string]string) []string { return slices.Collect(maps.Keys(all)) }

// stateOf returns the taints and the types of conditions of a Node.
func stateOf(object *unstructured.Unstructured) (words []string) {
	if object.GetKind() != "Node" {
		return nil
	}
	for _, path := range [][]string{{"spec", "taints"}, {"status", "conditions"}} {
		list, _, _ := unstructured.NestedSlice(object.Object, path...)
		for _, entry := range list {
			fields, _ := entry.(map[string]any)
			for _, key := range []string{"key", "type"} {
				if text, ok := fields[key].(string); ok && text != corev1.TaintNodeNotReady &&
					text != corev1.TaintNodeUnschedulable {
					words = append(words, text)
				}
			}
		}
	}
	return words
}

// nodeScript prints the state of a node. It leaves out everything that pods of any network bring
// along: devices with names that the kernel or a plugin numbers, and counters.
const nodeScript = `
{
ip -o -d link show | sed 's/^[0-9]*: //; s/@[^:]*:/:/; s/ qdisc .*//' | sed 's/^/link /'
ip -o address show | awk '{print "address", $2, $3, $4}'
for family in -4 -6; do ip $family rule show | sed "s/^/rule $family /"; ip $family route show table all | sed "s/expires [0-9]*sec//; s/^/route $family /"; done
nft -s list ruleset | sed 's/^/nft /'
for device in $(ls /sys/class/net); do tc filter show dev $device ingress; tc filter show dev $device egress; done 2>/dev/null | sed 's/^/filter /'
find /etc/cni /opt/cni /sys/fs/bpf | sed 's/^/file /'
find /run/alioth /var/lib/alioth /run/azure-vnet -mindepth 1 2>/dev/null | sed 's/^/file /'
find /var/lib/kubelet/device-plugins 2>/dev/null | sed 's/^/file /'
sysctl -a -r '^net[.]' 2>/dev/null | grep -vE 'nf_conntrack_count|random|[.]uuid|neigh[.].*gc_|tcp_fastopen_key|nf_conntrack_max|nf_conntrack_buckets|route[.]flush' | sed 's/^/setting /'
} | grep -vE 'veth|alv[0-9a-f]{12}'
`

// Exec runs a command on a node and returns its output.
type Exec func(ctx context.Context, node string, command ...string) (string, error)

// Node returns a line for each device, address, route, rule of a packet filter, BPF filter,
// file and kernel setting of a node that Alioth could leave.
func Node(ctx context.Context, exec Exec, node string) ([]string, error) {
	out, err := exec(ctx, node, "sh", "-c", nodeScript)
	if err != nil {
		return nil, fmt.Errorf("list what %s has: %w", node, err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	for _, kind := range []string{"link ", "address ", "route ", "file ", "setting "} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, kind) }) {
			return nil, errors.New("the census of node " + node + " has no line that begins with " + kind)
		}
	}
	return slices.Compact(lines), nil
}
