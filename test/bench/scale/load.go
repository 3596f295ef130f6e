// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cluster/report"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/bench/plane"
)

const (
	// connections is how many connections load objects, and writers how many requests
	// each of them has open.
	connections, writers = 4, 16
	// podsOfNode is the number of pods that a Node says that it can run.
	podsOfNode = 500
)

// loader writes many objects at once.
type loader struct {
	clients []client.Client
	next    atomic.Uint32
}

// newLoader returns a loader with an administrator's rights.
func newLoader(config *rest.Config, like client.Client) (*loader, error) {
	l := &loader{}
	for range connections {
		config := rest.CopyConfig(config)
		config.Dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext // a connection of its own
		c, err := client.New(config, client.Options{Scheme: like.Scheme(), Mapper: like.RESTMapper()})
		if err != nil {
			return nil, fmt.Errorf("connect to the API server: %w", err)
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

// each calls do for the numbers below count, many at once.
func (l *loader) each(ctx context.Context, count int, do func(ctx context.Context, c client.Client, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connections * writers)
	for i := range count {
		if ctx.Err() != nil {
			break
		}
		c := l.clients[l.next.Add(1)%connections]
		group.Go(func() error { return do(ctx, c, i) })
	}
	return group.Wait()
}

// nodes makes Nodes that are Ready, with an address.
func (l *loader) nodes(ctx context.Context, size Size) error {
	return l.each(ctx, size.Nodes, func(ctx context.Context, c client.Client, i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
		if size.mayBounce(i) {
			node.Labels = map[string]string{v1alpha1.RoleNodeLabel: "true"}
		}
		if err := c.Create(ctx, node); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP(i).String()}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(podsOfNode, resource.DecimalSI)}
		if err := c.Status().Update(ctx, node); err != nil {
			return fmt.Errorf("write the status of node %s: %w", node.Name, err)
		}
		return nil
	})
}

// vpc makes a tenant with a VPC that holds its VNI, one subnet and a default Network.
func vpc(ctx context.Context, c client.Client, name, cidr string, vni int32) error {
	v := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VPCSpec{CIDRs: []string{cidr}, AllowedTenants: []string{name}}}
	if err := c.Create(ctx, v); err != nil {
		return fmt.Errorf("create VPC %s: %w", name, err)
	}
	for _, object := range []client.Object{
		&v1alpha1.VNIClaim{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.VNIClaimName(uint32(vni))},
			Spec:       v1alpha1.VNIClaimSpec{VNI: vni, VPC: name, VPCUID: string(v.UID)},
		},
		&v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{cidr}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
		&arktosv1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: arktosv1.DefaultNetwork},
			Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: name},
		},
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T of VPC %s: %w", object, name, err)
		}
	}
	return nil
}

// podName returns the name of a pod by its number in its namespace.
func podName(i int) string { return fmt.Sprintf("pod-%05d", i) }

// bind makes a pod that is bound to a node.
func bind(ctx context.Context, c client.Client, namespace, name, node string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	if err := c.Create(ctx, pod); err != nil {
		return fmt.Errorf("create pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

// model has the objects that the operator wrote for a pod.
type model struct {
	pod     *corev1.Pod
	address *v1alpha1.Address
}

// models reads the objects that the operator wrote for the pods of a namespace, by the pods' names.
func models(ctx context.Context, c client.Client, namespace string) (map[string]model, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", namespace, err)
	}
	addresses, err := addressesOf(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	all := map[string]model{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		all[pod.Name] = model{pod, addresses[pod.Name]}
		if addresses[pod.Name] == nil {
			return nil, fmt.Errorf("pod %s/%s has no Address", namespace, pod.Name)
		}
	}
	return all, nil
}

// addressesOf returns the Addresses of a VPC, by the names of their holders.
func addressesOf(ctx context.Context, c client.Client, vpc string) (map[string]*v1alpha1.Address, error) {
	var list v1alpha1.AddressList
	if err := c.List(ctx, &list, client.MatchingFields{"spec.vpc": vpc}); err != nil {
		return nil, fmt.Errorf("list Addresses of VPC %s: %w", vpc, err)
	}
	all := map[string]*v1alpha1.Address{}
	for i := range list.Items {
		all[list.Items[i].Spec.Holder.Name] = &list.Items[i]
	}
	return all, nil
}

// copy returns a pod in another namespace, with all that the operator has written for the
// model, and its Address.
func (m model) copy(namespace, node string) (*corev1.Pod, *v1alpha1.Address) {
	pod := m.pod.DeepCopy()
	pod.Namespace, pod.UID, pod.ResourceVersion, pod.Spec.NodeName = namespace, uuid.NewUUID(), "", node
	for key, reported := range pod.Annotations {
		pod.Annotations[key] = strings.ReplaceAll(reported, m.pod.Namespace, namespace)
	}
	address := plane.AddressLike(m.address, pod)
	address.UID, address.CreationTimestamp, address.Generation = uuid.NewUUID(), m.address.CreationTimestamp, m.address.Generation
	return pod, address
}

// tokens makes the pod of every node's daemon, and returns tokens as the kubelet mounts
// them there, by the node's number.
func (l *loader) tokens(ctx context.Context, count int) ([]string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: report.Component}}
	if err := l.clients[0].Create(ctx, account); err != nil {
		return nil, fmt.Errorf("create the daemons' ServiceAccount: %w", err)
	}
	all := make([]string, count)
	err := l.each(ctx, count, func(ctx context.Context, c client.Client, i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: report.Component + "-" + nodeName(i)},
			Spec: corev1.PodSpec{
				NodeName: nodeName(i), ServiceAccountName: report.Component, HostNetwork: true,
				Containers: []corev1.Container{{Name: "cnid", Image: "example.com/none"}},
			},
		}
		if err := c.Create(ctx, pod); err != nil {
			return fmt.Errorf("create pod %s: %w", pod.Name, err)
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}
		if err := c.SubResource("token").Create(ctx, account.DeepCopy(), request); err != nil {
			return fmt.Errorf("get a token for the daemon of node %s: %w", nodeName(i), err)
		}
		all[i] = request.Status.Token
		return nil
	})
	return all, err
}
