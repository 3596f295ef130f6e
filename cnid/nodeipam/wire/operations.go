// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import "net/http"

// Paths, without a version.
const (
	RequestIPConfigPath  = "/network/requestipconfig"
	RequestIPConfigsPath = "/network/requestipconfigs"
	ReleaseIPConfigPath  = "/network/releaseipconfig"
	ReleaseIPConfigsPath = "/network/releaseipconfigs"
	// EndpointsPath is followed by a container ID.
	EndpointsPath        = "/network/endpoints/"
	DebugIPAddressesPath = "/debug/ipaddresses"
	DebugPodContextPath  = "/debug/podcontext"
	DebugRestDataPath    = "/debug/restdata"
	// HealthPath and CollectPath are for alioth-ipam. CNS has no such CollectPath.
	HealthPath  = "/network/health"
	CollectPath = "/network/alioth/collect"
)

// ContainerIDVariable is the variable part of the path of an endpoint.
const ContainerIDVariable = "{containerID}"

// Versions returns the prefixes under which each path is served. They all mean the same.
func Versions() []string { return []string{"", "/v0.1", "/v0.2"} }

// Operation is a method of a path. The server is made from the list of operations, and tests compare
// the OpenAPI document with it.
type Operation struct {
	Method string
	// Path has no version. ContainerIDVariable stands for a container ID.
	Path string
	// Name is unique.
	Name    string
	Summary string
	// Request and Response are zero values of the bodies' types; Request is nil for no body.
	Request, Response any
	// Socket is true for an operation that is served at the unix socket only, and not over TCP.
	Socket bool
	// Codes are those beside the ones that every operation may have.
	Codes []ReturnCode
}

// CommonCodes returns the codes that every operation may have.
func CommonCodes() []ReturnCode { return []ReturnCode{Success, UnsupportedVerb, UnexpectedError} }

// Operations returns the operations of the service.
func Operations() []Operation {
	return append(append(addressOperations(), endpointOperations()...), socketOperations()...)
}

// Refused returns paths of CNS that are known and not served, with the reason.
func Refused() map[string]string {
	return map[string]string{
		"/network/createorupdatenetworkcontainer": "the operator assigns addresses; no other program can",
		"/network/deletenetworkcontainer":         "the operator releases addresses; no other program can",
		"/network/nicresources":                   "devices are not allocated by resource claims",
		"/network/requestclaimresourceinfo":       "devices are not allocated by resource claims",
		"/homeaz":                                 "Alioth knows no availability zones",
	}
}

func addressOperations() []Operation {
	request := []ReturnCode{
		InvalidParameter, NotFound, AddressUnavailable, InvalidRequest, InconsistentIPConfigState, FailedToAllocateIPConfig,
		EmptyOrchestratorContext, UnsupportedOrchestratorContext, FailedToAllocateBackendConfig,
	}
	release := []ReturnCode{
		InvalidParameter,
		InvalidRequest,
		InconsistentIPConfigState,
		EmptyOrchestratorContext,
		UnsupportedOrchestratorContext,
	}
	return []Operation{
		{
			Method: http.MethodPost, Path: RequestIPConfigsPath, Name: "requestIPConfigs", Codes: request,
			Summary: "Attaches a pod, and returns its addresses", Request: IPConfigsRequest{}, Response: IPConfigsResponse{},
		},
		{
			Method: http.MethodPost, Path: RequestIPConfigPath, Name: "requestIPConfig", Codes: request,
			Summary: "The same for a pod with exactly one address", Request: IPConfigRequest{}, Response: IPConfigResponse{},
		},
		{
			Method: http.MethodPost, Path: ReleaseIPConfigsPath, Name: "releaseIPConfigs", Codes: release,
			Summary: "Detaches a container. What is not attached is a success", Request: IPConfigsRequest{}, Response: Response{},
		},
		{
			Method: http.MethodPost, Path: ReleaseIPConfigPath, Name: "releaseIPConfig", Codes: release,
			Summary: "The same with the request of the singular path", Request: IPConfigRequest{}, Response: Response{},
		},
	}
}

func endpointOperations() []Operation {
	path := EndpointsPath + ContainerIDVariable
	return []Operation{
		{
			Method: http.MethodGet, Path: path, Name: "getEndpoint", Response: GetEndpointResponse{},
			Summary: "Returns the interfaces of a container", Codes: []ReturnCode{InvalidParameter, NotFound, InconsistentIPConfigState},
		},
		{
			Method: http.MethodPatch, Path: path, Name: "patchEndpoint", Request: EndpointPatch{}, Response: Response{},
			Summary: "Adds what a client knows of a container's interfaces",
			Codes: []ReturnCode{
				InvalidParameter,
				UnknownContainerID,
				InvalidRequest,
				InconsistentIPConfigState,
				NilEndpointStateStore,
			},
		},
		{
			Method: http.MethodDelete, Path: path, Name: "deleteEndpoint", Response: Response{},
			Summary: "Removes what a client has added. It releases nothing",
			Codes:   []ReturnCode{InvalidParameter, NotFound, InconsistentIPConfigState, NilEndpointStateStore},
		},
	}
}

func socketOperations() []Operation {
	failed := []ReturnCode{InconsistentIPConfigState}
	return []Operation{
		{
			Method: http.MethodPost, Path: DebugIPAddressesPath, Name: "debugIPAddresses", Socket: true, Codes: append(failed, InvalidRequest),
			Summary: "Lists the addresses of the node's pods", Request: GetIPAddressesRequest{}, Response: GetIPAddressStatusResponse{},
		},
		{
			Method: http.MethodGet, Path: DebugPodContextPath, Name: "debugPodContext", Socket: true, Codes: failed,
			Summary: "Lists the IDs of addresses by podInterfaceID", Response: GetPodContextResponse{},
		},
		{
			Method: http.MethodGet, Path: DebugRestDataPath, Name: "debugRestData", Socket: true, Codes: failed,
			Summary: "Returns everything that the service knows", Response: GetHTTPServiceDataResponse{},
		},
		{
			Method: http.MethodGet, Path: HealthPath, Name: "health", Socket: true, Codes: []ReturnCode{UnsupportedEnvironment},
			Summary: "Tells whether pods can be attached (CNI's STATUS)", Response: Response{},
		},
		{
			Method: http.MethodPost, Path: CollectPath, Name: "collect", Socket: true,
			Codes:   append(failed, InvalidParameter, InvalidRequest),
			Summary: "Releases what the runtime does not know any more (CNI's GC)", Request: CollectRequest{}, Response: Response{},
		},
	}
}
