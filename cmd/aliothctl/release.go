// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
)

// releaser deletes one Address on request of a user.
type releaser struct {
	api client.Client
	out io.Writer
	// force deletes it although its holder is alive.
	force bool
}

func releaseCommand() *cobra.Command {
	var r releaser
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "release VPC|NETWORK IP",
		Short: "Release an address whose holder is gone for good (break-glass)",
		Long: `Release an address: delete the Address object, so that the IP can be assigned
again. Alioth does this itself once the holder is certainly gone. Use this command
for an address that remains, for example after a node is lost for good.

If the holder still runs somewhere, two pods may then have one IP. The command
therefore refuses a holder that the API server still knows, unless --force is set.
An event on the Address's holder records the release.

NETWORK is a network outside of every VPC: DanmNet/<namespace>/<name>,
TenantNetwork/<namespace>/<name>, ClusterNetwork/<name>, or <UID>.net, as names of
Address objects begin, which also means a network that is gone.`,
		Example: `  aliothctl release customer-a 10.10.1.5
  aliothctl release DanmNet/customer-a/internal 10.240.1.100`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ip, err := netip.ParseAddr(args[1])
			if err != nil {
				return fmt.Errorf("IP: %w", err)
			}
			r.out = cmd.OutOrStdout()
			config, err := options.RESTConfig(kubeconfig, cniapi.DefaultSocket)
			if err != nil {
				return err
			}
			if r.api, err = options.NewClient(config); err != nil {
				return err
			}
			return r.release(cmd.Context(), args[0], ip)
		},
	}
	options.AddKubeconfig(cmd, &kubeconfig)
	cmd.Flags().BoolVar(&r.force, "force", false, "release the address even if its holder is known to the API server")
	return cmd
}

func (r *releaser) release(ctx context.Context, place string, ip netip.Addr) error {
	address, err := r.find(ctx, place, ip)
	if err != nil {
		return err
	}
	name, holder := address.Name, address.Spec.Holder
	alive, err := r.alive(ctx, holder)
	if err != nil {
		return err
	}
	if alive && !r.force {
		return fmt.Errorf(
			"address %s is held by %s, which exists: delete the holder, or set --force if it certainly runs nowhere",
			name,
			describe(holder),
		)
	}
	// The event comes first: an event without a release does no harm, a release
	// without an event could not be explained later.
	if err := r.api.Create(ctx, event(address)); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	if err := r.api.Delete(ctx, address, client.Preconditions{UID: &address.UID}); err != nil {
		return fmt.Errorf("delete address %s: %w", name, err)
	}
	fmt.Fprintf(r.out, "address %s of %s%s released\n", name, describe(holder), placeOf(address))
	return nil
}

// find returns the Address with an IP in a VPC or network, by the domain of its name or
// by the path of the network.
func (r *releaser) find(ctx context.Context, place string, ip netip.Addr) (*v1alpha1.Address, error) {
	parts := strings.Split(place, "/")
	if len(parts) == 1 {
		var address v1alpha1.Address
		name := v1alpha1.AddressName(place, ip)
		if err := r.api.Get(ctx, client.ObjectKey{Name: name}, &address); err != nil {
			return nil, fmt.Errorf("get address %s: %w", name, err)
		}
		return &address, nil
	}
	if len(parts) > 3 || slices.Contains(parts, "") {
		return nil, fmt.Errorf("network %q: want <kind>/<namespace>/<name>, or ClusterNetwork/<name>", place)
	}
	fields := client.MatchingFields{"spec.network.kind": parts[0], "spec.network.name": parts[len(parts)-1]}
	if len(parts) == 3 {
		fields["spec.network.namespace"] = parts[1]
	}
	var list v1alpha1.AddressList
	if err := r.api.List(ctx, &list, fields); err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", place, err)
	}
	return oneWith(&list, place, ip)
}

// oneWith returns the Address with an IP. A network that was made again may have another
// one with that IP.
func oneWith(list *v1alpha1.AddressList, place string, ip netip.Addr) (*v1alpha1.Address, error) {
	var found []*v1alpha1.Address
	var domains []string
	for i := range list.Items {
		if address := &list.Items[i]; address.Spec.IP == ip.Unmap().String() {
			found, domains = append(found, address), append(domains, address.Spec.Domain())
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no pod holds %s in network %s: see kubectl get addresses -o wide", ip, place)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf(
		"%d networks of the path %s have %s: name one by its UID, %s",
		len(found),
		place,
		ip,
		strings.Join(domains, " or "),
	)
}

// alive reports whether the API server has the very object that holds the
// address.
func (r *releaser) alive(ctx context.Context, holder v1alpha1.AddressHolder) (bool, error) {
	var object client.Object = &corev1.Pod{}
	switch holder.Kind {
	case v1alpha1.HolderNode:
		object = &corev1.Node{}
	case v1alpha1.HolderService:
		object = &corev1.Service{}
	case v1alpha1.HolderPod:
	}
	err := r.api.Get(ctx, client.ObjectKey{Namespace: holder.Namespace, Name: holder.Name}, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s: %w", describe(holder), err)
	}
	return string(object.GetUID()) == holder.UID, nil
}

func describe(holder v1alpha1.AddressHolder) string {
	if holder.Namespace == "" {
		return fmt.Sprintf("%s %s", holder.Kind, holder.Name)
	}
	return fmt.Sprintf("%s %s/%s", holder.Kind, holder.Namespace, holder.Name)
}

// placeOf returns the node of an address as text; a Service's address has none.
func placeOf(address *v1alpha1.Address) string {
	if address.Spec.Node == "" {
		return ""
	}
	return " on node " + address.Spec.Node
}

// event returns an event about the holder. As in Kubernetes, the events of a holder without a
// namespace are in the namespace default.
func event(address *v1alpha1.Address) *eventsv1.Event {
	holder := address.Spec.Holder
	namespace := holder.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, GenerateName: holder.Name + "-"},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "alioth.dev/aliothctl", ReportingInstance: "aliothctl",
		Action: "Release", Reason: "AddressReleased", Type: corev1.EventTypeWarning,
		Note: fmt.Sprintf("Address %s (UID %s)%s was released by hand", address.Name, address.UID, placeOf(address)),
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: string(holder.Kind), Namespace: holder.Namespace, Name: holder.Name,
			UID: types.UID(holder.UID),
		},
	}
}
