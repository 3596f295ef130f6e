// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources asks the kubelet which devices it has allocated to a pod, by its
// API for that (Kubernetes 1.28 and later, "Monitoring device plugin resources").
package podresources

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alioth-net/alioth/cnid/system/kubeletapi"
)

// DefaultSocket is the kubelet's socket of the API. The kubelet makes the socket anew when it
// starts.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// patience bounds a request: the kubelet allows 100 in a second for all clients.
const patience = 10 * time.Second

// service is the name of the API.
const service = "v1.PodResourcesLister/"

// Client asks the kubelet of one node. Its methods may be called concurrently.
type Client struct {
	socket string
	api    *kubeletapi.Client
}

// New returns a client for the kubelet at a socket. It connects with the first request.
func New(socket string) *Client { return &Client{socket: socket, api: kubeletapi.NewClient(socket)} }

// Close closes idle connections.
func (c *Client) Close() { c.api.Close() }

// Devices returns the devices of a pod's containers, by the name of their extended resource. It
// does not return devices of init containers that end. A pod that the kubelet does not know has
// no devices.
func (c *Client) Devices(ctx context.Context, namespace, name string) (Devices, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Kubernetes before 1.34 does not serve Get by default, and every answer but the
	// pod's own leaves the question open: List is served always.
	if answer, err := c.api.Call(ctx, service+"Get", pod(namespace, name).request()); err == nil {
		return readGet(answer)
	} else if status := (kubeletapi.StatusError{}); !errors.As(err, &status) {
		return nil, c.explain(err)
	}
	answer, err := c.api.Call(ctx, service+"List", nil)
	if err != nil {
		return nil, c.explain(err)
	}
	return readList(answer, namespace, name)
}

func (c *Client) explain(err error) error {
	return fmt.Errorf(
		"ask the kubelet for the pod's devices at %s (is the folder mounted, and is Kubernetes 1.28 or later?): %w",
		c.socket,
		err,
	)
}
