from bestarm import bounds as bounds
from bestarm import datasets as datasets
from bestarm import design as design
from bestarm import environments as environments
from bestarm import estimation as estimation
from bestarm.evaluation import evaluate as evaluate
from bestarm.live import Experiment as Experiment
from bestarm.policies import DEO as DEO
from bestarm.policies import LUCB as LUCB
from bestarm.policies import RAGE as RAGE
from bestarm.policies import SBE as SBE
from bestarm.policies import SPBAI as SPBAI
from bestarm.policies import ActionElimination as ActionElimination
from bestarm.policies import AnytimeBAI as AnytimeBAI
from bestarm.policies import BernsteinElimination as BernsteinElimination
from bestarm.policies import GOpt as GOpt
from bestarm.policies import PairedTests as PairedTests
from bestarm.policies import SequentialHalving as SequentialHalving
from bestarm.policies import Uniform as Uniform
from bestarm.problem import Problem as Problem
from bestarm.recommendation import Recommendation as Recommendation
from bestarm.records import Plan as Plan
from bestarm.records import Summary as Summary
from bestarm.simulation import compare as compare
from bestarm.simulation import simulate as simulate

__version__: str
