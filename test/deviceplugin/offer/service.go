// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// errLeft: the kubelet keeps its request for the list as long as it knows the plugin.
var errLeft = errors.New("the kubelet no longer asks for the devices: has it ended?")

// service answers the kubelet.
type service struct {
	pluginapi.UnimplementedDevicePluginServer
	offer Offer
	// ending is closed when the plugin ends; left gets an error when the kubelet has gone.
	ending <-chan struct{}
	left   chan error
}

// GetDevicePluginOptions implements pluginapi.DevicePluginServer.
func (s *service) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

// ListAndWatch implements pluginapi.DevicePluginServer. The list never changes.
func (s *service) ListAndWatch(
	_ *pluginapi.Empty,
	stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse],
) error {
	list := &pluginapi.ListAndWatchResponse{}
	for _, address := range s.offer.Addresses {
		list.Devices = append(list.Devices, &pluginapi.Device{ID: address, Health: pluginapi.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	select {
	case <-s.ending:
	case <-stream.Context().Done():
		select {
		case s.left <- errLeft:
		default: // it is known already
		}
	}
	return nil
}

// Allocate implements pluginapi.DevicePluginServer.
func (s *service) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	answer := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		given := &pluginapi.ContainerAllocateResponse{}
		for _, id := range container.DevicesIds {
			if !slices.Contains(s.offer.Addresses, id) {
				return nil, status.Errorf(codes.NotFound, "no device %q is offered", id)
			}
			files, err := s.offer.files(id)
			if err != nil {
				return nil, status.Error(codes.FailedPrecondition, err.Error())
			}
			given.Devices = append(given.Devices, files...)
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}
