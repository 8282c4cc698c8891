from bestarm.forecasting.encoding import Encoder as Encoder
from bestarm.forecasting.forecaster import Forecaster as Forecaster
from bestarm.forecasting.mixture import Mixture as Mixture
