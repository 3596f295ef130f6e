// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles has the end-to-end tests of bouncers and dividers, on a lab of four nodes. Two of
// them have the label of members. Ways of packets are seen at the switch of the lab, by VPC, so
// that most tests run at the same time; those that change labels, cut or reboot nodes or restart
// daemons run alone, before.
//
// The functional scenarios of Mizar, by their numbers there, and where each is covered. "All"
// are ICMP, TCP, UDP and HTTP in both directions and both families.
//
//	 1  two pods, their bouncer on a third node          TestBouncer_FirstAndLaterPackets_ExactHops: exact ways,
//	                                                 then all
//	 2  pods of one node; pods on the bouncer's node     TestBouncer_FirstAndLaterPackets_ExactHops
//	 3  two bouncers share a subnet                      TestBouncers_UnknownAddresses_AllShare,
//	                                                 TestBouncers_PodsOnAllNodes_Reach
//	 4  several VPCs on the same nodes and bouncers      TestTenants_SameMembersAndRanges_Isolated
//	 5  two subnets and one divider                      TestDivider_FirstAndLaterPackets_ExactHops
//	 6  three bouncers per subnet, three dividers        TestRoles_ComeAndGo_StreamContinues
//	 7  members come and go under a TCP stream           TestRoles_ComeAndGo_StreamContinues
//	 8  direct within a subnet, exact hops               TestBouncer_FirstAndLaterPackets_ExactHops
//	 9  direct between subnets, exact hops               TestDivider_FirstAndLaterPackets_ExactHops
//	10  a deleted pod leaves no row                      TestPods_PeerEnds_OthersOnNodeStay, and the comparison
//	                                                 after each test
//	11  pods of a node end, others stay                  TestPods_PeerEnds_OthersOnNodeStay
//	12  a pod comes again with another address           TestPods_PeerEnds_OthersOnNodeStay
//	13  the end of Subnets and VPCs with roles           TestVPC_WithRolesEnded_NothingLeft
//	14  nodes and pods of the default VPC                TestDefaultVPC_RolesChange_PodsStayConnected; without roles:
//	                                                 TestDefaultVPC_NamespaceWithoutLabel_PodsConnected of
//	                                                 package e2e
//	18  Services whose client is on a bouncer's node:
//	    15, one backend to five                          TestService_SeveralBackends_Spread
//	    16, 50 connections are spread                    TestService_SeveralBackends_Spread
//	    17, a long connection keeps its backend          TestService_SeveralBackends_Spread
//
// Without roles, 15 to 17 and 19 are in TestServices_SocketsAndPackets_BehaveAlike of package
// e2e, and 20 is in its TestDefaultVPC_HostPods_BackendsAndClients.
package roles
