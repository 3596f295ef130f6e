// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import "slices"

// ReturnCode is the result of a request. The numbers equal the numbers of Azure CNS, which its
// clients compare with.
type ReturnCode int

// The codes that are in use.
const (
	// Success: done. Releasing something unknown is done, too.
	Success ReturnCode = 0
	// InvalidParameter: a value can't be right, for example a container ID with a slash.
	InvalidParameter ReturnCode = 2
	// UnsupportedEnvironment: this node can attach nothing; the message has the cause.
	UnsupportedEnvironment ReturnCode = 3
	// NotFound: the endpoint does not exist, or the pod is gone.
	NotFound ReturnCode = 14
	// AddressUnavailable: the pod does not have the desired addresses.
	AddressUnavailable ReturnCode = 15
	// UnknownContainerID: nothing of that container is attached.
	UnknownContainerID ReturnCode = 18
	// UnsupportedVerb: the path exists, but not with that HTTP method.
	UnsupportedVerb ReturnCode = 21
	// InvalidRequest: the body does not have the form of the path, or the singular path was asked
	// for a pod that has not exactly one address.
	InvalidRequest ReturnCode = 23
	// InconsistentIPConfigState: the state of the node contradicts the request.
	InconsistentIPConfigState ReturnCode = 29
	// FailedToAllocateIPConfig: the pod gets no address, and asking again does not help.
	FailedToAllocateIPConfig ReturnCode = 32
	// EmptyOrchestratorContext: the request names no pod.
	EmptyOrchestratorContext ReturnCode = 33
	// UnsupportedOrchestratorContext: the name of the pod can't be read.
	UnsupportedOrchestratorContext ReturnCode = 34
	// NilEndpointStateStore: the state of endpoints can't be kept.
	NilEndpointStateStore ReturnCode = 40
	// UnsupportedAPI: the path does not exist here.
	UnsupportedAPI ReturnCode = 43
	// FailedToAllocateBackendConfig: a device that was delegated to the pod can't be used.
	FailedToAllocateBackendConfig ReturnCode = 44
	// ConnectionError: a client got no answer. The service never sends it.
	ConnectionError ReturnCode = 45
	// UnexpectedError: asking again will help. The message begins with NotReadyPrefix.
	UnexpectedError ReturnCode = 99
)

// NotReadyPrefix begins the messages of errors that will pass. The kubelet tries again
// soon after an error with this text.
const NotReadyPrefix = "network is not ready - "

// Over TCP a request has the header "Authorization: Bearer <token>". The token is the content
// of a file that root of the node alone can read, made anew at each boot.
const (
	TokenScheme = "Bearer"
	TokenFile   = "/run/alioth/node-ipam-token"
)

// CodeHeader is the header of an answer that has the name of its code. CNS has it for
// metrics, because the HTTP status of an answer is 200 in most cases.
const CodeHeader = "Cns_return_code"

// names are the names of CNS. Its name of 32 differs from its constant.
var names = map[ReturnCode]string{
	Success:                        "Success",
	InvalidParameter:               "InvalidParameter",
	UnsupportedEnvironment:         "UnsupportedEnvironment",
	NotFound:                       "NotFound",
	AddressUnavailable:             "AddressUnavailable",
	UnknownContainerID:             "UnknownContainerID",
	UnsupportedVerb:                "UnsupportedVerb",
	InvalidRequest:                 "InvalidRequest",
	InconsistentIPConfigState:      "InconsistentIPConfigState",
	FailedToAllocateIPConfig:       "FailedToAllocateIpConfig",
	EmptyOrchestratorContext:       "EmptyOrchestratorContext",
	UnsupportedOrchestratorContext: "UnsupportedOrchestratorContext",
	NilEndpointStateStore:          "NilEndpointStateStore",
	UnsupportedAPI:                 "UnsupportedAPI",
	FailedToAllocateBackendConfig:  "FailedToAllocateBackendConfig",
	ConnectionError:                "ConnectionError",
	UnexpectedError:                "UnexpectedError",
}

// String returns the name of the code.
func (c ReturnCode) String() string {
	if name, ok := names[c]; ok {
		return name
	}
	return "UnknownError"
}

// Codes returns all codes in use, in ascending order.
func Codes() []ReturnCode {
	var list []ReturnCode
	for code := range names {
		list = append(list, code)
	}
	slices.Sort(list)
	return list
}
