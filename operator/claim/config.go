// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// InterfaceNames lists the names of a pod's interfaces, the requested one first.
func InterfaceNames(list []netif.Interface) []string {
	names := make([]string, 0, len(list))
	for _, one := range list {
		names = append(names, one.Name)
	}
	return FirstInFront(names)
}

// FirstInFront moves the name of the requested interface to the front.
func FirstInFront(names []string) []string {
	if i := slices.Index(names, v1alpha1.PodAttachment); i > 0 {
		copy(names[1:i+1], names[:i])
		names[0] = v1alpha1.PodAttachment
	}
	return names
}

// LacksConfig reports whether an Address of a pod in a VPC has no configuration, or no list of
// interfaces at the first one. Release 0.1 made such Addresses.
func LacksConfig(row *store.Address) bool {
	return row.VPC != "" && row.Holder.Kind == store.HolderPod && row.UID != "" && !row.Deleting &&
		(row.Config == nil || row.Attachment == v1alpha1.PodAttachment && len(row.Interfaces) == 0)
}

// ConfigureAddresses makes the configurations of a pod's Addresses match its interfaces.
func (c *Claimer) ConfigureAddresses(ctx context.Context, pod *store.Pod, list []netif.Interface) error {
	return c.configure(ctx, pod, list, func(*store.Address) bool { return true })
}

// CompleteAddresses adds configurations to a pod's Addresses that have none.
func (c *Claimer) CompleteAddresses(ctx context.Context, pod *store.Pod, list []netif.Interface) error {
	return c.configure(ctx, pod, list, LacksConfig)
}

func (c *Claimer) configure(
	ctx context.Context,
	pod *store.Pod,
	list []netif.Interface,
	of func(*store.Address) bool,
) error {
	var held, planned []*store.Address
	c.Store.View(func(tx store.ReadTx) {
		for _, row := range store.AddressesByPod(tx, pod) {
			if other := configured(row, list); other != nil && of(row) {
				held, planned = append(held, row), append(planned, other)
			}
		}
	})
	for i, row := range planned {
		if err := c.patchConfig(ctx, held[i], row); err != nil {
			return err
		}
	}
	return nil
}

// configured returns an Address with the configuration of its interface, nil if the Address has it
// already, or has none.
func configured(row *store.Address, list []netif.Interface) *store.Address {
	i := slices.IndexFunc(
		list,
		func(one netif.Interface) bool { return one.Name == row.Attachment && one.OutsideUID == "" },
	)
	if i < 0 || row.VPC == "" || row.UID == "" || row.Deleting {
		return nil
	}
	config := list[i].VPCConfig()
	planned := *row
	planned.Config, planned.Interfaces = &config, nil
	if row.Attachment == v1alpha1.PodAttachment {
		planned.Interfaces = InterfaceNames(list)
	}
	if row.Config != nil && *row.Config == config && slices.Equal(row.Interfaces, planned.Interfaces) {
		return nil
	}
	return &planned
}

// patchConfig writes the configuration of an Address. An Address that has changed since is left to
// its event, which is still to come.
func (c *Claimer) patchConfig(ctx context.Context, held, planned *store.Address) error {
	config, err := mergeOf(held.Config, planned.Config)
	if err != nil {
		return fmt.Errorf("encode the configuration of Address %s: %w", planned.Name, err)
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": held.UID, "resourceVersion": held.ResourceVersion},
		"spec":     map[string]any{"config": config, "interfaces": planned.Interfaces},
	})
	if err != nil {
		return fmt.Errorf("encode patch of Address %s: %w", planned.Name, err)
	}
	object := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: planned.Name}}
	err = c.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the configuration of Address %s: %w", planned.Name, err)
	}
	return nil
}

// mergeOf returns the merge patch (RFC 7386) from one configuration, nil for none, to another.
func mergeOf(held, planned *netif.VPCConfig) (map[string]any, error) {
	merge := map[string]any{}
	for _, from := range []*netif.VPCConfig{held, planned} {
		for key := range merge {
			merge[key] = nil
		}
		text, err := json.Marshal(from)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &merge); err != nil {
			return nil, err
		}
		if merge == nil { // the text is null
			merge = map[string]any{}
		}
	}
	return merge, nil
}
